"""The totals grow with what happens, each end once, whatever becomes of the rows."""

from __future__ import annotations

import pytest
from sqlalchemy import delete

from corral.store import schema, totals
from tests.unit.work.conftest import Board, at


def counted(board: Board) -> dict[tuple[str, str, str], float]:
    return {(row["name"], row["label"], row["outcome"]): row["number"] for row in board.db.read(totals.every)}


@pytest.mark.req("FR-MONITOR-003")
def test_every_attempt_and_every_end_counts_once(board: Board) -> None:
    use = {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25}
    task_id = board.one(max_retries=1)
    for minute in (0, 60):
        row = board.claimed(at(minute))
        broken = {"error_code": "broken", "error_message": "It broke.", "retryable": True}
        board.end(row, at(minute), success=False, usage=use, **broken)
    assert board.status(task_id) == "dead"
    once = counted(board)
    assert once == {
        ("retries", "", ""): 1, ("task_failures", "broken", ""): 1, ("tasks_finished", "command", "failed"): 1,
        ("tokens", "command", ""): 30, ("cost_usd", "command", ""): 0.5,
    }  # fmt: skip
    board.retry(task_id, at(120))
    assert counted(board) == once
    row = board.claimed(at(120))
    board.end(row, at(120), usage=use)
    board.cancel(board.one())
    board.do(lambda conn: conn.execute(delete(schema.events)))
    board.do(lambda conn: conn.execute(delete(schema.attempts)))
    assert counted(board) == {
        **once, ("tasks_finished", "command", "completed"): 1, ("tasks_finished", "command", "cancelled"): 1,
        ("tokens", "command", ""): 45, ("cost_usd", "command", ""): 0.75,
    }  # fmt: skip


def test_a_dependent_that_fails_for_another_reason_does_not_fail_twice(board: Board) -> None:
    one, other = board.submit({}, {})
    board.one(wait_for=[one, other])
    board.cancel(one)
    board.cancel(other)
    assert counted(board)["task_failures", "dependency_failed", ""] == 1
