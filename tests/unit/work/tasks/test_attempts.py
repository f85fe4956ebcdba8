"""Each attempt at a task has a row of its own, which tells what became of it; the task shows the one that counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.states import TaskStatus
from corral.runners.blame import DISK_FULL
from corral.store.rows.tasks import TaskRow
from corral.work.tasks import attempts
from corral.work.tasks.attempts import backoff_s, judge
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import tasks as task_rows
from tests.unit.work.conftest import Board, at

MADE = {"input_tokens": 5, "output_tokens": 2, "cost_usd": 0.5, "turns": 1}


def outcomes(board: Board, task_id: str) -> list[tuple[int, str | None, str | None]]:
    tried = board.detail(task_id)["attempt_history"]
    return [(attempt["number"], attempt["outcome"], attempt["error_code"]) for attempt in tried]


def claimed(board: Board, second: float = 0) -> TaskRow:
    return board.claimed(at(second))


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
    assert [attempt["usage"] for attempt in shown["attempt_history"]] == [MADE, MADE]


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


@pytest.mark.req("FR-QUEUE-009")
def test_the_pause_starts_at_ten_seconds_doubles_and_ends_at_five_minutes() -> None:
    pauses = [backoff_s(attempt, initial_s=10, max_s=300) for attempt in range(1, 9)]
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]


@given(attempts=st.integers(1, 10**6), initial_s=st.floats(0, 10**6), max_s=st.floats(0, 10**6))
def test_the_pause_is_bounded_and_never_shrinks(attempts: int, initial_s: float, max_s: float) -> None:
    pause = backoff_s(attempts, initial_s=initial_s, max_s=max_s)
    assert 0 <= pause <= max_s
    assert pause <= backoff_s(attempts + 1, initial_s=initial_s, max_s=max_s)


@pytest.mark.req("FR-QUEUE-009")
@pytest.mark.parametrize(("attempts", "least", "most"), [(1, 10, 11), (3, 40, 44), (9, 270, 300)])
def test_tasks_that_failed_together_are_tried_again_one_after_the_other(
    attempts: int, least: float, most: float
) -> None:
    pauses = [backoff_s(attempts, initial_s=10, max_s=300, seed=f"task-{number}") for number in range(100)]
    assert least <= min(pauses) and max(pauses) <= most, "initial: 10 s, longest: 5 min"
    assert len(set(pauses)) > 90 and max(pauses) - min(pauses) > 0.8 * (most - least)
    assert pauses[0] == backoff_s(attempts, initial_s=10, max_s=300, seed="task-0"), "the same, whoever asks"


@pytest.mark.req("FR-QUEUE-009", "FR-QUEUE-010")
def test_three_retries_then_dead() -> None:
    verdicts = [judge(attempt, 3, retryable=True, initial_s=10, max_s=300) for attempt in range(1, 5)]
    assert [verdict.status for verdict in verdicts] == [TaskStatus.PENDING] * 3 + [TaskStatus.DEAD]
    assert [verdict.delay_s for verdict in verdicts] == [10, 20, 40, 0]


@pytest.mark.req("FR-QUEUE-009")
def test_what_no_retry_can_mend_fails_at_once() -> None:
    assert judge(1, 3, retryable=False, initial_s=10, max_s=300).status == TaskStatus.FAILED


def test_no_retries_means_dead_at_the_first_failure() -> None:
    assert judge(1, 0, retryable=True, initial_s=10, max_s=300).status == TaskStatus.DEAD
