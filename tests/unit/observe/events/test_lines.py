"""A line of the log for an event: a sentence for people, its level, and never more of the event than a line may hold."""

from __future__ import annotations

import json
import logging
from typing import Any, cast

import pytest

from corral.observe.events import lines as event_lines
from corral.store.rows.records import EventRow


def event(kind: str, data: dict[str, Any] | None = None, **ids: str) -> EventRow:
    none = dict.fromkeys(("task_id", "session_id", "merge_id"))
    row = {"event_id": 7, "at": "2031-03-01T12:00:00.000Z", "kind": kind, **none, **ids, "data": data or {}}
    return cast(EventRow, row)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (event("task.claimed", {"attempt": 1}, task_id="0123456789"), "Task 01234567 claimed."),
        (
            event("task.retried", {"error_code": "exit_status", "error_message": "exit status 1"}, task_id="0123456789"),
            "Task 01234567 retried: exit_status: exit status 1",
        ),
        (event("merge.held", {"reason": "dirty"}, merge_id="abcdefghi", task_id="0123456789"), "Merge abcdefgh held: dirty"),
        (event("session.started", {"agent_name": "GladFalcon"}, session_id="s"), "Session GladFalcon started."),
        (event("lock.acquired", {"paths": ["a", "b", "c"]}, session_id="s"), "Lock a and 2 more acquired."),
        (event("lock.expired", {"path": "a"}), "Lock a expired."),
        (event("target.paused", {"target": "refs/heads/main", "reason": "no disk"}), "Target refs/heads/main paused: no disk"),
        (event("task.cancel_requested", {"reason": "late"}, task_id="t"), "Task t cancel requested: late"),
    ],
)  # fmt: skip
def test_the_sentence_says_what_happened_to_what_and_why(given: EventRow, sentence: str) -> None:
    assert event_lines.sentence(given) == sentence


def test_a_session_is_told_by_its_name_where_one_is_known() -> None:
    ended = event("session.ended", {"reason": "other"}, session_id="0123456789")
    assert event_lines.sentence(ended, {"0123456789": "GladFalcon"}) == "Session GladFalcon ended: other"
    assert event_lines.sentence(ended) == "Session 01234567 ended: other"


def test_a_line_holds_a_bounded_part_of_an_event() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _level in range(50):
        inner["a"] = {"text": "x" * 100_000, "many": list(range(100_000))}
        inner = inner["a"]
    given = event("lock.released", {"paths": [f"{number}/{'p' * 4000}" for number in range(10_000)], "deep": deep})
    line = event_lines.fields(given)
    assert len(json.dumps(line)) < 32_000
    assert line["data"]["paths"][-1] == "… 9980 more"
    assert line["event_id"] == 7


def test_a_secret_at_the_cut_is_taken_out_whole() -> None:
    secret = "sk-ant-api03-" + "c4n4ry" * 20
    for before in range(event_lines.MOST.text - len(secret) - 5, event_lines.MOST.text + 5):
        line = event_lines.fields(event("task.retried", {"error_message": f"{'x ' * (before // 2)}{secret}"}))
        assert "c4n4" not in json.dumps(line)


def test_trouble_is_told_apart_from_routine() -> None:
    assert event_lines.level(event("task.dead")) == logging.ERROR
    assert event_lines.level(event("agent.failing")) == logging.ERROR
    assert event_lines.level(event("edit.denied")) == logging.WARNING
    assert event_lines.level(event("task.claimed")) == logging.INFO
    assert event_lines.level(event("session.changed")) == logging.DEBUG
