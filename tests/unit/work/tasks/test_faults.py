"""What the machine did wrong is not counted against a task; who was running when the daemon died is suspected, and bounded."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection

from corral.core.errors import (
    Conflict,
    CorralError,
    DatabaseUnavailable,
    GitFailed,
    InvalidInput,
    LockHeld,
    NotFound,
    OutOfResources,
    RunnerUnavailable,
    SetupFailed,
)
from corral.core.states import TaskStatus
from corral.runners.blame import BLAME, Blame, blame_of, blame_of_error
from corral.store.rows.tasks import TaskRow
from corral.work.tasks import attempts, delays
from corral.work.tasks.attempts import Ending, judge
from corral.work.tasks.store import tasks as task_rows
from corral.work.workers.claim_pause import PROBE_AT_MOST_S, ClaimPause
from tests.unit.work.conftest import Board, at

FULL = Ending(False, "disk_full", "The volume is full.", is_fault=True, remedy="Free space.")


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        (GitFailed("x"), Blame.MACHINE),
        (DatabaseUnavailable("x"), Blame.MACHINE),
        (OSError(28, "No space left on device"), Blame.MACHINE),
        (CorralError("x"), Blame.MACHINE),
        (LockHeld("x"), Blame.MACHINE),
        (Conflict("x"), Blame.MACHINE),
        (OutOfResources("x"), Blame.MACHINE),
        (SetupFailed("x"), Blame.TASK),
        (RunnerUnavailable("x"), Blame.FINAL),
        (InvalidInput("x"), Blame.FINAL),
        (NotFound("x"), Blame.FINAL),
    ],
)
def test_an_error_is_blamed_by_the_nearest_class_that_the_table_names(error: Exception, blame: Blame) -> None:
    assert blame_of_error(error) is blame


def test_what_the_task_did_itself_stays_counted() -> None:
    own = {
        "command_failed",
        "timeout",
        "stalled",
        "memory_limit",
        "crashed",
        "api_error",
        "setup_failed",
        "path_replaced",
        "agent_killed",
    }
    assert {code for code, blame in BLAME.items() if blame is Blame.TASK} == {*own, "interrupted"}
    assert blame_of("a_code_that_nobody_knows") is Blame.TASK


def test_a_fault_is_tried_for_ever_and_a_crash_is_bounded() -> None:
    pauses = [judge(n, math.inf, initial_s=10, max_s=300).delay_s for n in (1, 2, 3, 6, 10_000)]
    assert pauses == [10, 20, 40, 300, 300]
    verdicts = [judge(n, 5, initial_s=10, max_s=300) for n in range(1, 7)]
    assert [verdict.status for verdict in verdicts] == [TaskStatus.PENDING] * 5 + [TaskStatus.DEAD]
    assert [verdict.delay_s for verdict in verdicts[:5]] == [10, 20, 40, 80, 160]


# -- starts that the machine prevents


def fail_to_start(board: Board, row: TaskRow, second: float) -> TaskRow:
    return board.do(
        lambda conn: attempts.end(conn, row["task_id"], row["fencing_token"], FULL, at(second), board.rules)
    )


def start(board: Board, row: TaskRow, second: float) -> TaskRow:
    return board.do(
        lambda conn: attempts.started(
            conn, row["task_id"], row["fencing_token"], at(second), pid=2**22 + 1, pid_started=1.0
        )
    )


def test_a_start_that_the_machine_prevents_uses_up_no_retry_and_says_why(board: Board) -> None:
    task_id, second = board.one(max_retries=0), 0.0
    for turn in range(8):
        row = board.claimed(at(second))
        after = fail_to_start(board, row, second)
        assert (after["status"], after["attempts"], after["faults"]) == ("pending", 0, turn + 1)
        assert (after["error_code"], after["error_message"]) == ("disk_full", "The volume is full.")
        wait_s = min(300, 10 * 2**turn)
        assert board.claim(at(second + 0.9 * wait_s - 1)) is None, "it waits, longer each time"
        second += 1.1 * wait_s
    row = board.claimed(at(second))
    assert start(board, row, second)["faults"] == 0, "a start that succeeds ends the story"
    assert board.detail(task_id)["attempts"] == 1


def test_its_own_failure_is_counted_as_ever(board: Board) -> None:
    task_id = board.one(max_retries=0)
    row = board.claimed()
    board.fail(row)
    assert board.status(task_id) == "dead"


@pytest.mark.req("FR-QUEUE-009")
def test_a_plain_commands_own_exit_code_is_tried_again_only_where_somebody_said_how_often(board: Board) -> None:
    def after(code: str, **item: Any) -> list[Any]:
        task_id = board.one(**item)
        row = board.claimed()
        board.end(row, success=False, error_code=code, error_message="x")
        board.do(
            lambda conn: task_rows.transition(conn, task_id, ("pending",), {"status": "cancelled", "completed_at": "x"})
        )
        history = board.detail(task_id)["history"]
        return [event["kind"] for event in history if event["kind"] in ("task.retried", "task.dead")]

    again, never = ["task.retried"], ["task.dead"]
    assert after("command_failed") == never, "what is out of tries is in the dead-letter queue"
    assert after("command_failed", max_retries=1) == again
    for code in ("timeout", "stalled", "memory_limit", "crashed", "setup_failed"):
        assert after(code) == again, code
    assert after("command_failed", command=None, prompt="Do it.") == again, "a worker's program is not a plain command"
    board.rules = board.rules.model_copy(update={"max_retries": 2})
    assert after("command_failed") == again
    assert after("command_failed", max_retries=0) == never


# -- daemons that die


def die(board: Board, *running: TaskRow, second: float) -> None:
    """The daemon dies with these running; the next one recovers."""
    for row in running:
        transcript = board.do(partial(task_rows.get, task_id=row["task_id"]))
        assert transcript is not None
        board.do(partial(attempts.crash, row=transcript, now=at(second), rules=board.rules))
        board.do(partial(attempts.resume, task_id=row["task_id"], now=at(second), rules=board.rules))


def claim_and_start(board: Board, second: float) -> TaskRow:
    row = board.claimed(at(second))
    return start(board, row, second)


def test_whose_worker_died_with_the_daemon_comes_back_at_once_and_after_the_second_time_one_at_a_time(
    board: Board,
) -> None:
    first, second, innocent = board.one(), board.one(), board.one()
    for deaths in (1, 2):
        running = [claim_and_start(board, 0), claim_and_start(board, 0)]
        die(board, *running, second=0)
        for task_id in (first, second):
            detail = board.detail(task_id)
            assert (detail["status"], detail["attempts"], detail["crashes"]) == ("pending", 0, deaths)
            assert detail["error_code"] == "daemon_died"
    beside = board.claim(at(1))
    assert beside is not None and beside["task_id"] == innocent, "others go on at once"
    suspect = claim_and_start(board, 23)
    assert suspect["task_id"] == first
    assert board.claim(at(23)) is None, "no other suspect beside it"
    board.end(suspect, at(24))
    assert board.detail(first)["crashes"] == 0, "it has run to its end: cleared"
    assert claim_and_start(board, 24)["task_id"] == second


@pytest.mark.req("FR-SWARM-006")
def test_a_suspected_follower_runs_beside_its_leader_that_waits_for_it(board: Board) -> None:
    leader = board.one()
    leads = claim_and_start(board, 0)
    follower, stranger = board.one(parent_task_id=leader), board.one()
    die(board, leads, *(claim_and_start(board, 0) for _ in range(2)), second=0)
    die(board, *(claim_and_start(board, 0) for _ in range(3)), second=0)
    assert claim_and_start(board, 100)["task_id"] == leader
    assert reason(board, follower) is None and "run one at a time" in str(reason(board, stranger))
    assert claim_and_start(board, 100)["task_id"] == follower
    assert board.claim(at(100)) is None


def reason(board: Board, task_id: str) -> str | None:
    def of_row(conn: Connection) -> str | None:
        row = task_rows.get(conn, task_id)
        assert row is not None
        return delays.reason(conn, row, None, at(100))

    return board.db.read(of_row)


def test_the_culprit_dies_of_it_and_the_one_beside_it_lives(board: Board) -> None:
    culprit, innocent = board.one(priority=9), board.one()
    die(board, claim_and_start(board, 0), claim_and_start(board, 0), second=0)
    die(board, claim_and_start(board, 0), claim_and_start(board, 0), second=0)
    second, deaths = 0.0, 2
    while board.status(culprit) != "dead" and deaths < 20:
        second += 1000
        die(board, claim_and_start(board, second), second=second)
        deaths += 1
    assert deaths == board.rules.max_crashes + 1
    detail = board.detail(culprit)
    assert detail["error_code"] == "daemon_died" and f"{deaths} times" in detail["error_message"]
    assert board.detail(innocent)["crashes"] == 2
    board.end(claim_and_start(board, second + 1000), at(second + 1001))
    assert board.detail(innocent)["status"] == "completed"
    board.retry(culprit)
    assert board.detail(culprit)["crashes"] == 1, "tried again on demand, and still alone"


def test_an_attempt_that_had_not_started_is_not_suspected(board: Board) -> None:
    task_id = board.one()
    row = board.claimed()
    die(board, row, second=1)
    assert (board.status(task_id), board.detail(task_id)["crashes"]) == ("pending", 0)
    assert board.claim(at(1)) is not None, "at once"


def test_a_regular_interruption_is_no_suspicion(board: Board) -> None:
    task_id = board.one()
    row = claim_and_start(board, 0)
    board.end(row, at(1), success=False, error_code="interrupted", error_message="The daemon was stopped.")
    assert "no process of its former worker" in str(reason(board, row["task_id"]))
    board.do(lambda conn: attempts.resume(conn, task_id, at(1), board.rules))
    assert (board.status(task_id), board.detail(task_id)["crashes"]) == ("pending", 0)
    assert board.claim(at(1)) is not None


def test_a_fault_while_it_ran_may_be_its_own_doing_and_is_bounded(board: Board) -> None:
    board.rules = board.rules.model_copy(update={"max_crashes": 1})
    task_id = board.one()
    for second in (0.0, 1000.0):
        row = claim_and_start(board, second)
        assert row["attempts"] == 1
        fail_to_start(board, row, second + 1)
    assert (board.status(task_id), board.detail(task_id)["error_code"]) == ("dead", "disk_full")


def test_a_clock_that_was_set_back_makes_nobody_wait_for_hours(board: Board) -> None:
    task_id = board.one()
    row = board.claimed(at(8 * 3600))
    fail_to_start(board, row, 8 * 3600)
    latest = task_rows.latest_backoff
    until = board.do(latest)
    assert until is not None and until > "2026-03-01T20"
    board.do(lambda conn: task_rows.bound_backoffs(conn, "2026-03-01T12:05:00.000Z"))
    assert board.do(latest) == "2026-03-01T12:05:00.000Z"
    assert board.claim(at(300))["task_id"] == task_id  # type: ignore[index]


# -- claiming is paused


def test_claiming_pauses_when_the_starts_of_different_tasks_fail_in_a_row(board: Board) -> None:
    pause = ClaimPause()
    assert not pause.start_failed("a", FULL, at(0), board.rules)
    assert not pause.start_failed("a", FULL, at(0), board.rules), "one task alone has its own backoff"
    assert pause.start_failed("b", FULL, at(0), board.rules)
    reason = pause.now
    assert reason is not None and reason.reason == "The volume is full." and reason.remedy == "Free space."
    assert not pause.may_probe(at(9)) and pause.may_probe(at(10))
    for turn in range(9):
        assert not pause.start_failed("a", FULL, at(turn), board.rules)
    assert pause.may_probe(at(8 + PROBE_AT_MOST_S)), "bounded"
    assert pause.may_probe(at(-3600)), "a clock that was set back makes nobody wait"
    assert pause.clear() and pause.now is None and not pause.clear()


def test_a_start_that_succeeds_or_another_fault_in_between_begins_the_count_anew(board: Board) -> None:
    pause = ClaimPause()
    pause.start_failed("a", FULL, at(0), board.rules)
    pause.clear()
    assert not pause.start_failed("b", FULL, at(0), board.rules)
    assert not pause.start_failed("c", replace(FULL, error_code="git_failed"), at(0), board.rules)
