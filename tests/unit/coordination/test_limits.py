"""No caller can have so much that all others pay for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone

import pytest
from sqlalchemy import Connection

from corral.coordination.edits import verdicts
from corral.coordination.edits.verdicts import Policy, Target
from corral.coordination.locks import table as lock_table
from corral.coordination.locks.keys import literal_key, parse_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.coordination.shell import danger
from corral.core.errors import InvalidInput, LimitReached
from corral.core.instants import iso
from corral.faces.hooks import payloads as hook_events
from corral.work.tasks.wire import TaskSubmission
from tests.support.locking import acquire

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)

pytestmark = pytest.mark.req("X17")


def _reserve(conn: Connection, session_id: str, first: int, count: int) -> None:
    keys = [literal_key(f"src/{number}.py", fold=False) for number in range(first, first + count)]
    acquire(conn, keys, Holder(session_id), NOW, ttl_s=600)


def test_a_session_holds_a_bounded_number_of_locks_and_its_edits_go_on(
    any_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_table, "MOST_OF_A_SESSION", 10)
    conn = any_database
    for name in ("a", "b"):
        session_registry.register(conn, Arrival(session_id=name), NOW)
    _reserve(conn, "a", 0, 10)
    with pytest.raises(LimitReached), conn.begin_nested():
        _reserve(conn, "a", 10, 1)
    _reserve(conn, "a", 0, 3)  # to renew is no more
    _reserve(conn, "b", 20, 3)

    def edit(path: str) -> verdicts.Verdict:
        target = Target(literal_key(path, fold=False), "/repo")
        return verdicts.before_edit(conn, Holder("a"), target, Policy("enforce", 600), NOW)

    further = edit("docs/more.md")
    assert further.denial is None and "did not lock docs/more.md" in further.remarks[0]
    assert edit("src/1.py") == verdicts.Verdict()
    assert lock_rows.count(conn, iso(NOW)) == 14


def test_there_is_a_bounded_number_of_sessions_and_room_for_people_and_workers(
    any_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_registry, "MOST_LIVE", 3)
    conn = any_database
    for name in ("a", "b", "c"):
        session_registry.register(conn, Arrival(session_id=name), NOW)
    with pytest.raises(LimitReached):
        session_registry.register(conn, Arrival(session_id="d"), NOW)
    session_registry.register(conn, Arrival(session_id="c"), NOW)
    session_registry.register(conn, Arrival(session_id="me", agent_type=session_registry.PERSON, agent_name="ann"), NOW)
    session_registry.register(conn, Arrival(session_id="w", task_id="t"), NOW)


def _of_a_hook(**tool_input: str) -> hook_events.HookEvent:
    payload = {"session_id": "s-1", "tool_name": "Bash", "tool_input": tool_input}
    return hook_events.read("PreToolUse", payload, NOW)


@pytest.mark.parametrize(
    "look",
    [
        parse_key,
        lambda text: TaskSubmission.model_validate({"title": text, "command": "true"}),
        lambda text: danger.danger(_of_a_hook(command="git log;" + text).command),
        lambda text: literal_key(_of_a_hook(file_path="/" + text).path, fold=False),
    ],
    ids=["key", "title", "command", "path"],
)
def test_text_of_any_length_is_refused_or_cut_before_each_character_is_looked_at(look: Callable[[str], object]) -> None:
    """What is a hundred times as long as the longest that is read costs as much as that."""

    def cost(text: str) -> float:
        began = time.thread_time()
        try:
            look(text)
        except (InvalidInput, ValueError) as refusal:
            assert len(str(refusal)) < 2000
        return time.thread_time() - began

    assert cost("a;" * 10_000_000) < 5 * cost("a;" * 100_000) + 0.5
