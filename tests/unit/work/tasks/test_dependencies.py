from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.outcomes import of_merge
from corral.core.states import MergeState, ReceiptStatus
from corral.core.tree import blocking_cycle
from corral.store.rows.tasks import TaskRow
from corral.work.merges.store import merges, receipts
from corral.work.merges.wire import CAME_BACK
from corral.work.tasks import tasks, views
from corral.work.tasks.outlook import Outlook, outlook
from corral.work.tasks.store import dependencies
from tests.support.examples import examples
from tests.unit.work.conftest import Board, at


def claim(board: Board, task_id: str) -> TaskRow:
    row = board.claim(at(10**6))
    assert row is not None and row["task_id"] == task_id
    return row


def settle(board: Board, merge_id: str, state: MergeState) -> None:
    """What the landing queue does when a merge request ends."""

    def end(conn: Any) -> None:
        values: dict[str, Any] = {"reason": "because"}
        if state is MergeState.LANDED:
            receipt = receipts.add(conn, tree="t" * 40, fingerprint="f", status=ReceiptStatus.UNVERIFIED, now=at(0))
            values = {"landed_sha": "c" * 40, "receipt_id": receipt["receipt_id"]}
        row = merges.finish(conn, merge_id, state, now=at(0), **values)
        assert row is not None
        tasks.merge_settled(conn, row["task_id"], at(0), unblock_on=board.rules.unblock_on)

    board.do(end)


@pytest.mark.req("FR-QUEUE-008")
def test_a_dependent_waits_until_what_its_parent_changed_has_landed(board: Board) -> None:
    parent = board.one()
    child = board.one(wait_for=[parent])
    assert board.status(child) == "waiting"
    board.finish_with_work(claim(board, parent))
    assert board.status(parent) == "completed" and board.status(child) == "waiting"
    settle(board, "m1", MergeState.LANDED)
    assert board.status(child) == "pending"


@pytest.mark.req("FR-QUEUE-008")
def test_nothing_to_merge_counts_as_landed(board: Board) -> None:
    parent = board.one()
    child = board.one(wait_for=[parent])
    board.end(claim(board, parent))
    assert board.status(child) == "pending"


def test_completed_is_enough_where_that_is_configured(board: Board) -> None:
    board.rules = board.rules.model_copy(update={"unblock_on": "completed"})
    parent = board.one()
    child = board.one(wait_for=[parent])
    board.finish_with_work(claim(board, parent))
    assert board.status(child) == "pending"


def test_one_that_could_begin_on_work_that_came_back_fails_and_begins_once_that_is_queued_again(board: Board) -> None:
    board.rules = board.rules.model_copy(update={"unblock_on": "completed"})
    parent = board.one()
    child = board.one(wait_for=[parent])
    grandchild = board.one(wait_for=[child])
    board.finish_with_work(claim(board, parent))
    board.fail(claim(board, child), at(10**6))
    assert board.detail(child)["error_message"] == "It broke."
    board.do(lambda conn: merges.hold(conn, "m1", "because", at(0)))
    board.do(lambda conn: tasks.merge_settled(conn, parent, at(0), unblock_on="completed"))
    assert (board.status(child), board.detail(child)["error_message"]) == ("pending", "It broke.")
    settle(board, "m1", MergeState.CONFLICT)
    assert [board.status(task) for task in (child, grandchild)] == ["failed", "failed"]
    board.do(lambda conn: merges.reopen(conn, "m1", "d" * 40, at(0)))
    board.do(lambda conn: tasks.merge_settled(conn, parent, at(0), unblock_on="completed"))
    assert [board.status(task) for task in (child, grandchild)] == ["pending", "waiting"]


def test_nothing_begins_on_work_that_waits_for_its_own_base_or_clashes_with_another_parents(board: Board) -> None:
    board.rules = board.rules.model_copy(update={"unblock_on": "completed"})
    one, two = board.one(), board.one()
    child = board.one(wait_for=[one, two])
    for number in ("m1", "m2"):
        row = board.claimed(at(10**6))
        board.finish_with_work(row, number)
    assert board.status(child) == "pending"

    def consider() -> str:
        board.do(lambda conn: tasks.merge_settled(conn, one, at(0), unblock_on="completed"))
        return board.status(child)

    board.do(lambda conn: dependencies.clash(conn, child, {one: "b" * 40, two: "b" * 40}))
    assert consider() == "waiting"
    board.do(lambda conn: dependencies.clash(conn, child, {one: "b" * 40, two: "old"}))
    assert consider() == "pending", "one of them has changed"
    board.do(lambda conn: merges.hold(conn, "m1", f"{CAME_BACK}: because", at(0)))
    assert consider() == "waiting"
    board.do(lambda conn: merges.requeue(conn, "m1", at(0)))
    assert consider() == "pending"


@pytest.mark.req("FR-QUEUE-008")
@pytest.mark.parametrize("state", [MergeState.CONFLICT, MergeState.FAILED, MergeState.CANCELLED])
def test_a_merge_that_came_back_fails_the_dependents_and_landing_after_all_revives_them(
    board: Board, state: MergeState
) -> None:
    parent = board.one(title="the parent")
    child = board.one(wait_for=[parent])
    grandchild = board.one(wait_for=[child])
    board.finish_with_work(claim(board, parent))
    settle(board, "m1", state)
    detail = board.detail(child)
    assert (detail["status"], detail["error_code"]) == ("failed", "dependency_failed")
    assert (
        parent in detail["error_message"]
        and "the parent" in detail["error_message"]
        and of_merge(state, dismissed=False) in detail["error_message"]
    )
    assert board.detail(grandchild)["error_code"] == "dependency_failed"
    board.do(lambda conn: merges.reopen(conn, "m1", "b" * 40, at(1)))
    settle(board, "m1", MergeState.LANDED)
    assert (board.status(child), board.status(grandchild)) == ("pending", "waiting")
    assert board.detail(child)["error_code"] is None and board.detail(child)["completed_at"] is None


@pytest.mark.req("FR-QUEUE-008")
@pytest.mark.parametrize("state", [MergeState.CONFLICT, MergeState.FAILED, MergeState.CANCELLED])
def test_a_retry_that_has_nothing_to_merge_settles_a_task_whose_merge_came_back(
    board: Board, state: MergeState
) -> None:
    parent = board.one()
    child = board.one(wait_for=[parent])
    board.finish_with_work(claim(board, parent))
    settle(board, "m1", state)
    board.retry(parent)
    board.end(claim(board, parent))
    assert (board.status(child), board.detail(parent)["outcome"]) == ("pending", "nothing to land")
    merge = board.db.read(lambda conn: merges.get(conn, "m1"))
    assert (merge["state"], merge["task_id"]) == ("cancelled", None)
    assert (board.kinds(parent).count("merge.cancelled")) == 1


@pytest.mark.req("FR-QUEUE-008")
def test_a_request_that_a_worker_made_itself_and_that_came_back_still_counts(board: Board) -> None:
    """It is of this very attempt, which only has nothing more to merge."""
    parent = board.one()
    child = board.one(wait_for=[parent])
    first = claim(board, parent)
    board.fail(first)
    row = claim(board, parent)
    mine: dict[str, Any] = {"session_id": None, "title": "t", "priority": 5, "branch": "b", "target": "main"}
    mine["base_sha"] = "a" * 40
    board.do(
        lambda conn: merges.submit(conn, merge_id="m1", task_id=parent, head_sha="b" * 40, now=at(10**6 + 1), **mine)
    )
    settle(board, "m1", MergeState.CONFLICT)
    board.end(row)
    assert board.detail(child)["error_code"] == "dependency_failed"


@pytest.mark.req("FR-QUEUE-008")
def test_failure_goes_down_the_whole_chain_and_a_retry_revives_all_of_it(board: Board) -> None:
    board.rules = board.rules.model_copy(update={"max_retries": 0})
    first = board.one()
    chain = [first]
    for _ in range(20):
        chain.append(board.one(wait_for=[chain[-1]]))
    board.fail(claim(board, first))
    assert board.status(first) == "dead"
    assert {board.detail(task_id)["error_code"] for task_id in chain[1:]} == {"dependency_failed"}
    why = [str(board.detail(task_id)["error_message"]) for task_id in chain[1:]]
    assert all(f"It waits for {parent} (" in text for parent, text in zip(chain, why, strict=False))
    assert "cannot succeed: it is dead." in why[0]
    assert all(f"cannot succeed: {first} (a task) is dead." in text for text in why[1:]), "all name where it began"
    late = board.one(wait_for=[chain[-1]])
    assert f"cannot succeed: {first} (a task) is dead." in board.detail(late)["error_message"]
    board.retry(first)
    assert [board.status(task_id) for task_id in chain] == ["pending"] + ["waiting"] * 20
    assert "task.revived" in board.kinds(chain[-1])


@pytest.mark.req("FR-QUEUE-008")
def test_ignoring_a_dependencys_failure(board: Board) -> None:
    parent, other = board.submit({}, {})
    child = board.one(wait_for=[parent, other], ignore_dependency_failure=True)
    board.cancel(parent)
    assert board.status(child) == "waiting"
    board.cancel(other)
    assert board.status(child) == "pending"


def test_a_dependent_that_failed_on_its_own_is_not_revived(board: Board) -> None:
    parent = board.one()
    child = board.one(wait_for=[parent])
    board.end(claim(board, parent))
    board.fail(claim(board, child), retryable=False)
    board.do(lambda conn: tasks.merge_settled(conn, parent, at(0)))
    assert board.status(child) == "failed" and board.detail(child)["error_code"] == "broken"


def test_a_task_that_waits_for_a_failed_one_fails_at_once(board: Board) -> None:
    parent = board.one()
    board.cancel(parent)
    child = board.one(wait_for=[parent])
    assert board.detail(child)["error_code"] == "dependency_failed"


def test_a_task_that_waits_for_a_finished_one_is_ready_at_once(board: Board) -> None:
    parent = board.one()
    board.end(claim(board, parent))
    assert board.status(board.one(wait_for=[parent[:8]])) == "pending"


def test_two_lost_parents_must_both_be_retried(board: Board) -> None:
    left, right = board.submit({}, {})
    child = board.one(wait_for=[left, right])
    board.cancel(left)
    board.cancel(right)
    board.retry(left)
    assert board.status(child) == "failed" and right in board.detail(child)["error_message"]
    board.retry(right)
    assert board.status(child) == "waiting"


@pytest.mark.req("FR-QUEUE-008")
def test_a_circle_is_refused_and_shown(board: Board) -> None:
    from corral.core.errors import InvalidInput

    with pytest.raises(InvalidInput, match="circular dependency: a → b → c → a"):
        board.submit(
            {"name": "a", "wait_for": ["b"]}, {"name": "b", "wait_for": ["c"]}, {"name": "c", "wait_for": ["a"]}
        )
    with pytest.raises(InvalidInput, match="circular dependency: me → me"):
        board.submit({"name": "me", "wait_for": ["me"]})
    assert board.db.read(views.listing) == []


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), size=st.integers(1, 12))
def test_a_cycle_is_found_exactly_where_there_is_one(data: st.DataObject, size: int) -> None:
    nodes = [str(n) for n in range(size)]
    edges = {node: data.draw(st.lists(st.sampled_from(nodes), unique=True, max_size=3)) for node in nodes}
    reach = {node: set(edges[node]) for node in nodes}
    for _ in nodes:
        for node in nodes:
            reach[node] |= {far for near in reach[node] for far in reach[near]}
    cycle = blocking_cycle(edges)
    assert (cycle is None) == (not any(node in reach[node] for node in nodes))
    if cycle is not None:
        assert cycle[0] == cycle[-1] and len(cycle) > 1
        assert all(b in edges[a] for a, b in itertools.pairwise(cycle))


def test_a_long_chain_is_no_deep_recursion() -> None:
    edges = {str(n): [str(n + 1)] for n in range(50_000)}
    assert blocking_cycle(edges) is None
    assert blocking_cycle({**edges, "50000": ["49999"]}) == ["49999", "50000", "49999"]


@pytest.mark.parametrize(
    ("status", "merge_state", "unblock_on", "expected"),
    [
        ("running", None, "landed", Outlook.OPEN),
        ("interrupted", None, "landed", Outlook.OPEN),
        ("completed", None, "landed", Outlook.MET),
        ("completed", "landed", "landed", Outlook.MET),
        ("completed", "held", "landed", Outlook.OPEN),
        ("completed", "conflict", "landed", Outlook.LOST),
        ("completed", "held", "completed", Outlook.MET),
        ("completed", "conflict", "completed", Outlook.LOST),
        ("completed", "missing", "completed", Outlook.OPEN),
        ("dead", None, "completed", Outlook.LOST),
        ("pending", "conflict", "landed", Outlook.OPEN),
    ],
)
def test_what_a_dependency_is_worth(status: str, merge_state: str | None, unblock_on: str, expected: Outlook) -> None:
    assert outlook(status, merge_state, unblock_on) is expected


@pytest.mark.req("FR-QUEUE-008")
@pytest.mark.parametrize("seed", range(examples(5, usual=2)))
def test_random_graphs_run_in_order_and_to_the_end(board: Board, seed: int) -> None:
    rng = random.Random(seed)
    names = [f"t{n}" for n in range(40)]
    wanted = {name: rng.sample(names[:n], min(n, rng.randint(0, 3))) for n, name in enumerate(names)}
    shuffled = rng.sample(names, len(names))
    ids = dict(zip(shuffled, board.submit(*({"name": n, "wait_for": wanted[n]} for n in shuffled)), strict=True))
    name_of = {task_id: name for name, task_id in ids.items()}
    succeeded: set[str] = set()
    failed: set[str] = set()
    while (row := board.claim()) is not None:
        name = name_of[row["task_id"]]
        assert set(wanted[name]) <= succeeded
        if rng.random() < 0.1:
            board.fail(row, retryable=False)
            failed.add(name)
        else:
            board.end(row)
            succeeded.add(name)
    hopeless = set(failed)
    for name in names:
        if hopeless & set(wanted[name]):
            hopeless.add(name)
    assert {name for name in names if board.status(ids[name]) == "failed"} == hopeless
    assert succeeded == set(names) - hopeless
