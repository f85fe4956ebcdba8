"""The job that writes events to the log: each once, a bounded number at a time, less when a day has too many."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest

from corral.core import logs
from corral.core.events import Event, EventKind
from corral.observe.events import log
from corral.observe.events import log as event_log
from corral.observe.events.log import EventLog
from corral.store import events
from corral.store.engine.database import Database
from corral.store.rows.records import EventRow

NOW = datetime(2031, 3, 1, 12, tzinfo=timezone.utc)
RELEASED = EventKind.LOCK_RELEASED({"paths": ["src/a.py"]})


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    logs.configure(tmp_path / "logs" / "corral.log", "INFO", 30, stderr=False)
    yield tmp_path / "logs" / "corral.log"
    logs.close()


def record(db: Database, count: int, event: Event = RELEASED) -> None:
    def write(conn: Any) -> None:
        for _ in range(count):
            events.record(conn, NOW, event)

    db.write(write)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_step_writes_a_page_and_says_whether_there_is_more(db: Database, file: Path) -> None:
    record(db, event_log.PAGE + 1)
    step = EventLog(db, file).step
    assert step(NOW) == NOW
    assert len(lines(file)) == event_log.PAGE
    assert step(NOW) is None
    assert [line["event_id"] for line in lines(file)] == list(range(1, event_log.PAGE + 2))
    assert step(NOW) is None
    assert len(lines(file)) == event_log.PAGE + 1


def test_the_next_daemon_goes_on_where_the_last_one_stopped(db: Database, file: Path) -> None:
    record(db, 3)
    EventLog(db, file).step(NOW)
    record(db, 2)
    EventLog(db, file).step(NOW)
    assert [line["event_id"] for line in lines(file)] == [1, 2, 3, 4, 5]


def test_what_an_older_version_recorded_is_not_written_whole(db: Database, file: Path) -> None:
    record(db, event_log.BACKLOG + 50)
    EventLog(db, file).finish(NOW, pages=100)
    assert [line["event_id"] for line in lines(file)] == list(range(51, event_log.BACKLOG + 51))


def test_a_day_with_too_much_keeps_what_is_grave_and_says_so_once(
    db: Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = EventLog(db, file).step
    record(db, 1)
    step(NOW)
    monkeypatch.setattr(event_log, "MOST_OF_A_DAY", file.stat().st_size - 1)
    for _round in range(2):
        record(db, 1)
        record(db, 1, EventKind.TASK_DEAD({"error_code": "x"}))
        step(NOW)
    assert [line["event"] for line in lines(file)] == ["lock_released", "log_full", "task_dead", "task_dead"]


# -- A line of the log for an event: a sentence for people, its level, and never more of the event than a line may
# hold


def event(kind: str, data: dict[str, Any] | None = None, **ids: str) -> EventRow:
    none = dict.fromkeys(("task_id", "session_id", "merge_id"))
    row = {"event_id": 7, "at": "2031-03-01T12:00:00.000Z", "kind": kind, **none, **ids, "data": data or {}}
    return cast(EventRow, row)


@pytest.mark.parametrize(
    ("row", "sentence"),
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
def test_the_sentence_says_what_happened_to_what_and_why(row: EventRow, sentence: str) -> None:
    assert log.sentence(row) == sentence


def test_a_session_is_told_by_its_name_where_one_is_known() -> None:
    ended = event("session.ended", {"reason": "other"}, session_id="0123456789")
    assert log.sentence(ended, {"0123456789": "GladFalcon"}) == "Session GladFalcon ended: other"
    assert log.sentence(ended) == "Session 01234567 ended: other"


def test_a_line_holds_a_bounded_part_of_an_event() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _level in range(50):
        inner["a"] = {"text": "x" * 100_000, "many": list(range(100_000))}
        inner = inner["a"]
    row = event("lock.released", {"paths": [f"{number}/{'p' * 4000}" for number in range(10_000)], "deep": deep})
    line = log.fields(row)
    assert len(json.dumps(line)) < 32_000
    assert line["data"]["paths"][-1] == "… 9980 more"
    assert line["event_id"] == 7


def test_a_secret_at_the_cut_is_taken_out_whole() -> None:
    secret = "sk-ant-api03-" + "c4n4ry" * 20
    for before in range(log.MOST.text - len(secret) - 5, log.MOST.text + 5):
        line = log.fields(event("task.retried", {"error_message": f"{'x ' * (before // 2)}{secret}"}))
        assert "c4n4" not in json.dumps(line)


def test_trouble_is_told_apart_from_routine() -> None:
    assert log.level_of(event("task.dead")) == logging.ERROR
    assert log.level_of(event("agent.failing")) == logging.ERROR
    assert log.level_of(event("edit.denied")) == logging.WARNING
    assert log.level_of(event("task.claimed")) == logging.INFO
    assert log.level_of(event("session.changed")) == logging.DEBUG
