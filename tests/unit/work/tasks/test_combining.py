"""Several agents at one task, and how their results become one."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.errors import Conflict, InvalidInput
from corral.core.states import MergeState
from corral.store.rows.tasks import TaskRow
from corral.work.merges.store import merges
from corral.work.tasks import combining
from corral.work.tasks.attempts import CollectedWork
from corral.work.tasks.store import family
from tests.unit.work.conftest import Board, at
from tests.unit.work.tasks.test_dependencies import settle


def together(board: Board, number: int, combine: str, **fields: Any) -> tuple[str, list[TaskRow]]:
    """A task for several agents, with its members claimed."""
    task_id = board.one(agents=number, combine=combine, **fields)
    claimed = []
    for _ in range(number):
        row = board.claimed()
        claimed.append(row)
    assert board.claim() is None, "the task itself is nobody's to start"
    return task_id, claimed


def succeed(board: Board, row: TaskRow, output: str, seconds: float = 1, *, work: bool = False) -> None:
    landing = None
    if work:
        landing = CollectedWork(f"m-{row['task_id'][:8]}", f"corral/{row['task_id'][:8]}", "main", "a" * 40, "b" * 40)
    board.end(row, at(seconds), result={"output": output}, to_land=landing)


def decide(board: Board) -> bool:
    is_any_decided = board.do(combining.is_any_decided)
    board.do(lambda conn: combining.settle_all(conn, at(60), board.rules))
    return is_any_decided


def requests(board: Board) -> list[tuple[str | None, str]]:
    return [(row["task_id"], row["branch"]) for row in board.db.read(merges.listing)]


@pytest.mark.req("FR-SWARM-003", "FR-SWARM-001")
@pytest.mark.parametrize("combine", ["all", "concat"])
def test_each_lands_and_the_results_are_kept_together(board: Board, combine: str) -> None:
    task_id, (one, two) = together(board, 2, combine)
    succeed(board, two, "second", 1, work=True)
    assert not decide(board) and board.status(task_id) == "waiting"
    succeed(board, one, "first", 2, work=True)
    for row in (one, two):
        assert not decide(board) and board.status(task_id) == "waiting", "what they made has not landed"
        settle(board, f"m-{row['task_id'][:8]}", MergeState.LANDED)
    assert decide(board)
    detail = board.detail(task_id)
    assert detail["status"] == "completed"
    assert [part["result"] for part in detail["result"]["contributions"]] == [{"output": "first"}, {"output": "second"}]
    assert detail["result"].get("output") == ("first\n\nsecond" if combine == "concat" else None)
    assert {owner for owner, _ in requests(board)} == {one["task_id"], two["task_id"]}
    assert not decide(board), "once"


@pytest.mark.req("FR-SWARM-003")
def test_partial_results_are_kept_and_the_rule_says_whether_they_do(board: Board) -> None:
    outcomes = {}
    for combine in ("all", "concat", "vote", "first"):
        task_id, rows = together(board, 3, combine)
        board.fail(rows[0], retryable=False)
        board.fail(rows[1], retryable=False)
        succeed(board, rows[2], "right")
        assert decide(board)
        detail = board.detail(task_id)
        outcomes[combine] = (detail["status"], detail["error_code"])
        parts = detail["result"]["contributions"]
        assert [part["status"] for part in parts] == ["failed", "failed", "completed"], combine
        assert parts[2]["result"]["output"] == "right"
    assert outcomes == {
        "all": ("failed", "agents_failed"),
        "concat": ("completed", None),
        "vote": ("failed", "no_majority"),
        "first": ("completed", None),
    }


@pytest.mark.req("FR-SWARM-003")
def test_the_first_success_wins_and_only_its_branch_lands(board: Board) -> None:
    task_id, (slow, quick, other) = together(board, 3, "first")
    succeed(board, quick, "quick", 5, work=True)
    assert decide(board)
    detail = board.detail(task_id)
    assert detail["status"] == "completed" and detail["result"]["output"] == "quick"
    succeed(board, slow, "slow", 6, work=True)
    assert requests(board) == [(task_id, f"corral/{quick['task_id'][:8]}")]
    kept = board.detail(slow["task_id"])["result"]["contribution"]
    assert kept["branch"] == f"corral/{slow['task_id'][:8]}", "it is kept, and lands nowhere"
    assert board.detail(other["task_id"])["status"] == "running"


@pytest.mark.req("FR-SWARM-003")
def test_a_majority_decides_a_vote_and_one_of_it_lands(board: Board) -> None:
    task_id, (one, two, three) = together(board, 3, "vote")
    for row, output in ((one, "blue"), (two, "red"), (three, " red\n")):
        succeed(board, row, output, work=True)
    assert decide(board)
    detail = board.detail(task_id)
    assert detail["result"]["output"] == "red" and detail["result"]["votes"] == {"for": 2, "of": 3}
    assert requests(board) == [(task_id, f"corral/{two['task_id'][:8]}")]
    tie, rows = together(board, 2, "vote")
    for row, output in zip(rows, "ab", strict=True):
        succeed(board, row, output)
    assert decide(board) and board.detail(tie)["error_code"] == "no_majority"


@pytest.mark.req("FR-SWARM-003")
def test_one_more_agent_makes_one_of_all_and_is_told_what_each_did(board: Board) -> None:
    task_id, (one, two) = together(board, 2, "synthesize", command=None, prompt="Write the page.")
    succeed(board, one, "with a table", work=True)
    board.fail(two, retryable=False)
    assert decide(board) and board.status(task_id) == "pending"
    row = board.claim()
    assert row is not None and row["task_id"] == task_id
    prompt = board.db.read(lambda conn: combining.synthesis(conn, row))
    assert (
        prompt is not None
        and f"branch corral/{one['task_id'][:8]}, commit {'b' * 12}" in prompt
        and "with a table" in prompt
    )
    assert requests(board) == []
    succeed(board, row, "the page", work=True)
    assert board.status(task_id) == "completed" and requests(board)[0][0] == task_id


@pytest.mark.req("FR-SWARM-003")
def test_dependents_wait_for_the_whole_and_a_retry_runs_those_that_failed(board: Board) -> None:
    first = board.one(title="before")
    task_id = board.one(agents=2, combine="all", wait_for=[first])
    after = board.one(wait_for=[task_id])
    members = board.detail(task_id)["followers"]
    assert [board.status(task) for task in (*members, after)] == ["waiting"] * 3
    row = board.claimed()
    assert row["task_id"] == first
    board.end(row)
    one, two = (board.claim(), board.claim())
    assert one is not None and two is not None and [one["task_id"], two["task_id"]] == members
    succeed(board, one, "fine")
    board.fail(two, retryable=False)
    assert decide(board) and board.status(after) == "failed"
    board.retry(task_id)
    assert [board.status(task) for task in (task_id, *members, after)] == ["waiting", "completed", "pending", "waiting"]
    again = board.claimed()
    succeed(board, again, "now too")
    assert decide(board) and board.status(task_id) == "completed" and board.status(after) == "pending"


@pytest.mark.req("FR-SWARM-003", "FR-QUEUE-008")
def test_a_task_of_several_agents_fails_with_what_it_waits_for_names_it_and_lives_again_with_it(board: Board) -> None:
    first = board.one(title="before")
    task_id = board.one(agents=2, wait_for=[first])
    after = board.one(wait_for=[task_id])
    members = board.detail(task_id)["followers"]
    row = board.claimed()
    board.fail(row, retryable=False)
    assert [board.status(task) for task in (task_id, *members, after)] == ["failed"] * 4
    assert "before" in board.detail(task_id)["error_message"]
    assert board.detail(board.one(agents=2, wait_for=[first]))["error_code"] == "dependency_failed"
    board.retry(first)
    assert [board.status(task) for task in (task_id, *members, after)] == ["waiting"] * 4
    assert not board.do(lambda conn: family.leaderless(conn)), "nobody is cancelled"
    row = board.claimed()
    assert row["task_id"] == first
    board.end(row)
    assert [board.status(task) for task in (task_id, *members)] == ["waiting", "pending", "pending"]


@pytest.mark.req("FR-SWARM-003")
def test_what_cannot_be_combined_is_refused_and_the_copies_count_in_the_queue(board: Board) -> None:
    for fields, message in (
        ({"combine": "vote"}, "`combine` needs `agents`"),
        ({"agents": 2, "combine": "synthesize"}, "a command cannot synthesize"),
        ({"agents": 0}, "greater than or equal to 1"),
        ({"agents": 51}, "less than or equal to 50"),
    ):
        with pytest.raises(InvalidInput, match=message):
            board.one(**fields)
    board.max_size = 3
    with pytest.raises(Conflict, match="4 more were submitted, 3 are allowed"):
        board.one(agents=3)
    assert board.detail(board.one(agents=2))["agents"] == 2


@pytest.mark.req("FR-SWARM-003")
def test_members_claim_what_their_task_claims_and_run_side_by_side(board: Board) -> None:
    task_id = board.one(agents=2, claims=["src/**"])
    stranger = board.one(claims=["src/a.py"])
    members = [board.claim(), board.claim()]
    assert all(row is not None and row["parent_task_id"] == task_id for row in members)
    assert board.claim() is None, "it would change what they change"
    for row in members:
        assert row is not None
        board.end(row)
    last = board.claim()
    assert last is not None and last["task_id"] == stranger
