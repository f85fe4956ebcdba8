"""Each attempt at a task has a row of its own, which tells what became of it; the task shows the one that counts."""

from __future__ import annotations

from typing import Any

import pytest

from corral.runners.blame import DISK_FULL
from corral.store.rows.tasks import TaskRow
from corral.work.tasks import attempts
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import tasks as task_rows
from tests.unit.work.conftest import Board, at

MADE = {"input_tokens": 5, "output_tokens": 2, "cost_usd": 0.5, "turns": 1}


def outcomes(board: Board, task_id: str) -> list[tuple[int, str | None, str | None]]:
    tried = board.detail(task_id)["attempt_history"]
    return [(one["number"], one["outcome"], one["error_code"]) for one in tried]


def claimed(board: Board, second: float = 0) -> TaskRow:
    row = board.claim(at(second))
    assert row is not None
    return row


@pytest.mark.req("FR-QUEUE-004")
def test_every_end_of_an_attempt_is_kept_with_its_number_and_its_reason(board: Board) -> None:
    task_id = board.one(max_retries=5)
    board.fail(claimed(board), at(1))
    full: dict[str, Any] = {"success": False, "error_code": DISK_FULL, "error_message": "Full.", "is_fault": True}
    board.end(claimed(board, 100), at(101), **full)
    third: Any = claimed(board, 200)
    board.do(lambda conn: attempts.interrupt(conn, third, "Stopped.", at(201)))
    board.do(lambda conn: attempts.resume(conn, task_id, at(202), board.rules))
    board.end(claimed(board, 300), at(301))
    assert outcomes(board, task_id) == [
        (1, "failed", "broken"),
        (2, "faulted", DISK_FULL),
        (3, "interrupted", "interrupted"),
        (4, "completed", None),
    ]
    assert board.detail(task_id)["attempts"] == 2, "what the machine or Corral cut short is not counted"


@pytest.mark.req("FR-QUEUE-004")
def test_usage_is_that_of_all_attempts_together(board: Board) -> None:
    task_id = board.one(max_retries=1)
    for second in (0, 100):
        row = claimed(board, second)
        board.end(row, at(second + 1), success=False, error_code="broken", error_message="No.", usage=MADE)
    shown = board.detail(task_id)
    assert shown["usage"] == {name: 2 * value for name, value in MADE.items()}
    assert [one["usage"] for one in shown["attempt_history"]] == [MADE, MADE]


@pytest.mark.req("FR-QUEUE-010")
def test_a_task_that_is_retried_shows_nothing_of_its_former_attempt(board: Board) -> None:
    task_id = board.one(max_retries=0)
    row = claimed(board)
    board.do(lambda conn: attempts.started(conn, task_id, row["fencing_token"], at(1), pid=2**22 + 1, pid_started=1.0))
    board.fail(row, at(2))
    assert board.detail(task_id)["session_id"] == row["session_id"]
    again = board.retry(task_id, at(3))
    assert (again["session_id"], again["started_at"], again["current_attempt"]) == (None, None, None)
    assert claimed(board, 4)["fencing_token"] == 2, "a token is never given twice"
    assert outcomes(board, task_id) == [(1, "failed", "broken"), (2, None, None)]


def test_a_cancelled_attempt_is_told_from_one_that_failed(board: Board) -> None:
    task_id = board.one()
    row = claimed(board)
    board.cancel(task_id, at(1))
    board.fail(row, at(2))
    assert outcomes(board, task_id) == [(1, "cancelled", "broken")]


@pytest.mark.req("D12")
def test_an_attempt_that_ended_takes_no_more_news(board: Board) -> None:
    board.one(max_retries=0)
    row = claimed(board)
    news = {"progress": "Reading."}

    def tell() -> bool:
        return board.do(lambda conn: attempt_rows.change_open(conn, row["task_id"], row["fencing_token"], news))

    assert tell()
    board.fail(row, at(1))
    assert not tell()


def test_a_task_has_one_open_attempt_at_most(board: Board) -> None:
    task_id = board.one()
    claimed(board)
    moved = board.do(lambda conn: task_rows.transition(conn, task_id, ("running",), {"status": "pending"}))
    assert moved is not None  # wrongly: its attempt was not ended
    with pytest.raises(Exception, match=r"UNIQUE|unique"):
        board.claim(at(1))
