"""Figures of kinds of agents, and which of them keeps failing."""

from __future__ import annotations

from typing import Any

import pytest

from corral.coordination.sessions.registry import Arrival, register
from corral.observe.alerts import store as alerts
from corral.observe.metrics import figures
from corral.store import events
from corral.store.rows.tasks import TaskRow
from corral.work.swarm import store as swarm
from corral.work.swarm.performance import KEEPS_FAILING, by_kind, durations
from corral.work.swarm.swarm import members, worked_since
from corral.work.tasks.store import attempts
from corral.work.tasks.wire import IMPROVEMENT
from tests.unit.work.conftest import Board, at


def row(outcome: str, seconds: float | None = 1.0, **more: Any) -> Any:
    began = "2026-11-22T08:00:00.000Z" if seconds is not None else None
    ended = f"2026-11-22T08:{int((seconds or 0) // 60):02}:{(seconds or 0) % 60:06.3f}Z"
    used = {"agent": None, "runner": "command", "tokens": 0, "cost_usd": 0.0, "memory_mb": None}
    return {**used, "outcome": outcome, "started_at": began, "ended_at": ended, **more}


@pytest.mark.req("SUP-NFR4", "FR-SWARM-005")
def test_a_kind_is_judged_by_what_it_completed_and_failed() -> None:
    mason = {"agent": "mason", "runner": "claude"}
    rows = [
        row("completed", 10, **mason, tokens=100, cost_usd=0.5, memory_mb=300),
        row("completed", 20, **mason, tokens=50, cost_usd=0.25, memory_mb=200),
        row("completed", 60, **mason),
        row("failed", 500, **mason, tokens=7),
        row("interrupted", None, **mason),
        row("faulted", None),
        row("completed", None, runner=None),
    ]
    command, judged, session = by_kind(rows)
    assert judged == {
        "kind": "mason", "completed": 3, "failed": 1, "other": 1, "success_rate": 0.75,
        "mean_s": 30.0, "median_s": 20.0, "p95_s": 60.0, "tokens": 157, "cost_usd": 0.75, "memory_mb": 300,
    }  # fmt: skip
    assert (command["kind"], command["success_rate"], command["other"], command["memory_mb"]) == (
        "command",
        None,
        1,
        None,
    )
    assert (session["kind"], session["success_rate"], session["median_s"]) == ("session", 1.0, None)
    assert by_kind([]) == []


def test_the_95th_of_a_hundred_is_not_the_slowest() -> None:
    assert durations([row("completed", seconds) for seconds in range(1, 101)])["p95_s"] == 95.0
    assert durations([row("completed", seconds) for seconds in range(1, 20)])["p95_s"] == 19.0
    assert durations([row("completed", 3)])["p95_s"] == 3.0


def told(board: Board) -> list[dict[str, Any]]:
    rows = board.db.read(lambda conn: events.listing(conn, limit=10_000))
    return [dict(event["data"]) for event in rows if event["kind"] == "agent.failing"]


def begun(board: Board, second: int, runner: str | None = "command", **fields: Any) -> TaskRow:
    """A task that a worker of a runner has taken up."""
    task_id = board.one(max_retries=0, **fields)
    row = board.claimed(at(second))
    board.do(lambda conn: attempts.change_open(conn, task_id, row["fencing_token"], {"runner": runner}))
    return row


def fails(board: Board, second: int, runner: str | None = "command", **fields: Any) -> None:
    board.fail(begun(board, second, runner, **fields), at(second + 1))


@pytest.mark.req("SUP-NFR4", "FR-SWARM-004")
def test_a_kind_that_keeps_failing_is_told_of_once_until_it_succeeds(board: Board) -> None:
    for number in range(KEEPS_FAILING - 1):
        fails(board, 10 * number)
    assert told(board) == []
    fails(board, 100)
    (failing,) = told(board)
    assert (failing["agent"], failing["failures"]) == ("command", KEEPS_FAILING)
    assert "5 attempts by command failed in a row, the last one, at task " in failing["reason"]
    assert "broken: " in failing["reason"]
    fails(board, 200)
    assert len(told(board)) == 1, "once"
    board.end(begun(board, 300), at(301))
    for number in range(KEEPS_FAILING - 1):
        fails(board, 400 + 10 * number)
    assert len(told(board)) == 1, "its success ended the row"
    fails(board, 500)
    assert len(told(board)) == 2
    for number in range(KEEPS_FAILING):
        fails(board, 600 + 10 * number, runner=None)
    assert len(told(board)) == 2, "sessions are of no kind"


@pytest.mark.req("SUP-NFR4", "FR-META-001")
def test_test_cases_of_an_improvement_say_nothing_of_a_kind(board: Board) -> None:
    for number in range(KEEPS_FAILING + 1):
        fails(board, 10 * number, task_type=IMPROVEMENT)
    assert told(board) == [] and board.db.read(lambda conn: swarm.ended_since(conn, "")) == []
    shown = board.db.read(lambda conn: figures.collect(conn, at(-1), "agent"))
    assert [group["name"] for group in shown["groups"]] == [IMPROVEMENT] and shown["tasks"] == KEEPS_FAILING + 1
    assert board.db.read(lambda conn: alerts.ended_attempts(conn, 0, "", 99)) == []


@pytest.mark.req("SUP-NFR4")
def test_the_figures_are_found_by_the_keys_of_the_newest_tasks(board: Board) -> None:
    for number in range(3):
        fails(board, 10 * number)
    everything = board.db.read(lambda conn: swarm.ended_since(conn, ""))
    assert [attempt["outcome"] for attempt in everything] == ["failed"] * 3
    assert board.db.read(lambda conn: swarm.ended_since(conn, everything[1]["ended_at"] or "")) == everything[2:]
    assert board.db.read(lambda conn: swarm.ended_since(conn, "", most_tasks=2)) == everything[1:]


def test_a_worker_has_its_name_before_it_has_a_session(board: Board) -> None:
    task_id, claimed = board.one(), board.claim()
    assert claimed is not None
    (member,) = board.db.read(members)
    (worked,) = board.db.read(lambda conn: worked_since(conn, "2026"))
    arrival = Arrival(str(claimed["session_id"]), "command", task_id=task_id)
    name = board.do(lambda conn: register(conn, arrival, at(1)))["agent_name"]
    assert (member["agent_name"], worked["agent_name"], member["runner"]) == (name, name, "command")
    assert board.db.read(members)[0]["agent_name"] == name
