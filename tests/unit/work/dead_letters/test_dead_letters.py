"""The dead-letter queue."""

from __future__ import annotations

import pytest

from corral.core.errors import Conflict
from corral.work.dead_letters import dead_letters
from tests.unit.work.conftest import START, Board, Row


def dead(board: Board) -> list[Row]:
    return board.db.read(dead_letters.listing)


def kill(board: Board, *, tries: int = 1) -> str:
    """A task that ran out of its tries."""
    task_id = board.one(title="fragile", max_retries=tries - 1)
    for _ in range(tries):
        board.do(lambda conn: conn.exec_driver_sql("UPDATE tasks SET not_before_at = NULL"))
        row = board.claimed()
        board.fail(row)
    return task_id


@pytest.mark.req("FR-QUEUE-010")
def test_what_is_out_of_tries_is_there_with_its_story_and_nothing_else_is(board: Board) -> None:
    task_id = kill(board, tries=2)
    board.fail(row, retryable=False) if (row := (board.one(), board.claim())[1]) else None
    assert [(row["task_id"], row["attempts"], row["error_message"]) for row in dead(board)] == [
        (task_id, 2, "It broke.")
    ]
    story = board.db.read(lambda conn: dead_letters.read(conn, task_id))
    assert [(attempt["number"], attempt["error_code"]) for attempt in story["attempt_history"]] == [
        (1, "broken"),
        (2, "broken"),
    ]
    assert [event["kind"] for event in story["history"]][-1] == "task.dead"


@pytest.mark.req("FR-QUEUE-010")
def test_some_or_all_run_again_and_what_waited_for_them_revives(board: Board) -> None:
    one, two = kill(board), kill(board)
    waits = board.one(wait_for=[one])
    assert board.status(waits) == "failed"
    again = board.do(lambda conn: dead_letters.retry(conn, [one[:12], one], START, board.rules))
    assert again == [one] and board.status(one) == "pending" and board.status(waits) == "waiting"
    assert [row["task_id"] for row in dead(board)] == [two]
    assert board.detail(one)["attempts"] == 0, "all its tries"


@pytest.mark.req("FR-QUEUE-010")
def test_all_of_those_named_or_none(board: Board) -> None:
    killed, fine = kill(board), board.one()
    for act in (lambda conn: dead_letters.retry(conn, [killed, fine], START, board.rules),
                lambda conn: dead_letters.clear(conn, [killed, fine], START)):  # fmt: skip
        with pytest.raises(Conflict, match="is pending: it is not in the dead-letter queue"):
            board.do(act)
    assert [row["task_id"] for row in dead(board)] == [killed] and board.status(killed) == "dead"


@pytest.mark.req("FR-QUEUE-010")
def test_what_is_cleared_stays_a_task_and_can_be_retried_by_its_id(board: Board) -> None:
    task_id = kill(board)
    assert board.do(lambda conn: dead_letters.clear(conn, [task_id], START)) == [task_id]
    assert dead(board) == [] and board.detail(task_id)["outcome"] == "dismissed"
    with pytest.raises(Conflict, match="is cleared"):
        board.do(lambda conn: dead_letters.clear(conn, [task_id], START))
    board.retry(task_id)
    assert board.status(task_id) == "pending"


def test_pages_go_on_behind_the_last(board: Board) -> None:
    ids = [kill(board) for _ in range(3)]
    first = board.db.read(lambda conn: dead_letters.listing(conn, limit=2))
    rest = board.db.read(lambda conn: dead_letters.listing(conn, after=first[-1]["task_id"], limit=2))
    assert [row["task_id"] for row in (*first, *rest)] == ids
