"""The end of a session: all that it held goes with it, in the one transaction that ends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from corral.config.model import Settings
from corral.coordination.handoffs import store as handoff_rows
from corral.coordination.locks.keys import parse_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import session_end
from corral.coordination.sessions.registry import SILENT, Arrival, EndedSession
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.instants import iso
from corral.store import events
from corral.store.rows.sessions import SessionRow
from corral.work.tasks import leases
from tests.support.locking import acquire
from tests.unit.work.conftest import START, Board, at

SETTINGS = Settings()


class Inn(Board):
    """The queue, and sessions that come, take work, and go."""

    def arrive(self, who: str, **about: Any) -> None:
        self.do(
            lambda conn: session_end.arrive(conn, Arrival(session_id=who, **about), START, leases.offering(self.rules))
        )

    def take(self, who: str, **work: Any) -> str:
        task_id = self.submit({"title": None, "command": None, "description": f"for {who}", **work})[0]
        row = self.do(lambda conn: leases.claim(conn, leases.claimant(conn, who), START, SETTINGS))
        assert row is not None and row["task_id"] == task_id
        self.do(lambda conn: acquire(conn, [parse_key(f"{who}.py")], Holder(session_id=who), START, ttl_s=3600))
        return task_id

    def leave(self, who: str, reason: str = "ended", seconds: float = 1) -> EndedSession | None:
        return self.do(lambda conn: session_end.end(conn, who, reason, at(seconds), leases.offering(self.rules)))

    def session(self, who: str) -> SessionRow:
        row = self.db.read(lambda conn: session_rows.get(conn, who))
        assert row is not None
        return row

    def locked(self) -> list[str]:
        return [row["file_path"] for row in self.db.read(lambda conn: lock_rows.listing(conn, iso(START)))]


@pytest.fixture
def inn(board: Board) -> Inn:
    inn = Inn(board.db)
    for who in ("a", "b"):
        inn.arrive(who)
    return inn


def test_locks_tasks_handoff_and_status_go_together(inn: Inn) -> None:
    task_id = inn.take("a")
    row = inn.leave("a", "process_gone")
    assert row is not None and row["released"] == ["a.py"]
    assert (inn.session("a")["status"], inn.status(task_id), inn.locked()) == ("disconnected", "pending", [])
    (handoff,) = inn.db.read(lambda conn: handoff_rows.listing(conn, None, 5))
    assert handoff["in_progress"] == [f"Task {task_id} is pending: for a"]
    rows = inn.db.read(lambda conn: events.listing(conn, limit=1000))
    ended = {"task.requeued", "handoff.written", "session.ended"}
    assert {row["kind"] for row in rows if row["at"] == iso(at(1))} == ended
    taken = inn.do(lambda conn: leases.claim(conn, leases.claimant(conn, "b"), at(1), SETTINGS))
    assert taken is not None and taken["task_id"] == task_id


def test_what_a_subagent_claimed_goes_with_its_parent(inn: Inn) -> None:
    inn.arrive("child", parent_session_id="a")
    task_id = inn.take("child")
    inn.leave("a")
    assert (inn.status(task_id), inn.session("child")["status"], inn.locked()) == ("pending", "disconnected", [])


def test_a_subagent_takes_nothing_of_its_parents_with_it(inn: Inn) -> None:
    inn.arrive("child", parent_session_id="a")
    task_id = inn.take("a")
    inn.leave("child", "finished")
    assert (inn.status(task_id), inn.session("a")["status"], inn.locked()) == ("running", "active", ["a.py"])


def test_a_session_ended_twice_is_ended_once(inn: Inn) -> None:
    task_id = inn.take("a")
    assert inn.leave("a") is not None
    again = inn.do(lambda conn: leases.claim(conn, leases.claimant(conn, "b"), START, SETTINGS))
    assert again is not None
    assert inn.leave("a", "process_gone", 5) is None
    assert inn.session("a")["end_reason"] == "ended"
    assert inn.detail(task_id)["session_id"] == "b"
    assert inn.kinds(task_id).count("task.requeued") == 1


def test_one_process_has_one_session_at_a_time(inn: Inn) -> None:
    inn.arrive("old", client_pid=7, client_started=1.0)
    inn.arrive("child", client_pid=7, client_started=1.0, parent_session_id="old")
    task_id = inn.take("old")
    inn.arrive("new", client_pid=7, client_started=1.0)
    assert inn.session("old")["end_reason"] == inn.session("child")["end_reason"] == "superseded"
    assert (inn.status(task_id), inn.locked()) == ("pending", [])
    inn.arrive("other", client_pid=7, client_started=99.0)
    assert inn.session("new")["status"] == "active", "the same number, another process"


def test_a_late_event_of_the_session_before_does_not_end_the_one_after_it(inn: Inn) -> None:
    inn.arrive("old", client_pid=7, client_started=1.0)
    inn.arrive("new", client_pid=7, client_started=1.0)
    late = Arrival(session_id="old", client_pid=7, client_started=1.0)
    inn.do(lambda conn: session_registry.alive(conn, late, at(1)))
    assert inn.session("new")["status"] == "active"


def test_a_person_who_fell_silent_keeps_his_task_and_one_who_left_does_not(inn: Inn) -> None:
    inn.arrive("p", agent_type="person")
    task_id = inn.take("p")
    inn.leave("p", SILENT)
    assert inn.status(task_id) == "running"
    inn.arrive("p", agent_type="person")
    inn.leave("p")
    assert inn.status(task_id) == "pending"


def test_nothing_ends_a_session_by_another_way() -> None:
    package = Path(session_end.__file__).parents[2]
    ending = [path.name for path in package.rglob("*.py") if re.search(r"\bsession_registry\.end\(", path.read_text())]
    assert ending == ["session_end.py"]
