"""A task that is made of steps: queued as a whole, and in the state that its steps imply."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from corral.core.errors import Conflict, InvalidInput
from corral.core.states import MergeState, TaskStatus
from corral.work.tasks import combining, followers, tasks, views
from corral.work.tasks.store import family
from corral.work.workflows import standing
from corral.work.worktrees.allocation import WorktreeContext
from tests.unit.work.conftest import START, Board, Row
from tests.unit.work.tasks.test_dependencies import settle


def step(name: str, *wait_for: str, **fields: Any) -> Row:
    return {"title": f"W: {name}", "command": "true", "name": name, "wait_for": list(wait_for), **fields}


def workflow(*steps: Row, **fields: Any) -> Row:
    return {"title": "W", "command": None, "template": "w", "steps": list(steps), **fields}


THREE = workflow(step("a"), step("b", "a"), step("c"))


def submit(board: Board, item: Row) -> tuple[str, dict[str, str]]:
    (root,) = board.submit(item)
    rows = board.do(lambda conn: family.steps(conn, root))
    return root, {str(row["step"]): row["task_id"] for row in rows}


def run_next(board: Board, **how: Any) -> str:
    row = board.claimed()
    board.end(row, **how)
    return str(row["task_id"])


def state(board: Board, task_id: str) -> str:
    return str(board.do(lambda conn: tasks.find(conn, task_id))["status"])


def test_it_waits_for_its_steps_and_is_completed_with_what_the_last_of_them_came_to(board: Board) -> None:
    root, steps = submit(board, THREE)
    assert {name: state(board, task) for name, task in steps.items()} == {
        "a": "pending",
        "b": "waiting",
        "c": "pending",
    }
    assert state(board, root) == "waiting"
    for name in ("a", "b", "c"):
        assert state(board, root) == "waiting"
        assert run_next(board, result={"output": f"by {name}"}) in steps.values()
    row = board.do(lambda conn: tasks.find(conn, root))
    assert row["status"] == TaskStatus.COMPLETED and row["attempts"] == 0
    assert row["result"] == {"steps": {"b": {"output": "by b"}, "c": {"output": "by c"}}}, "a only led to b"


@pytest.mark.parametrize("unblock_on", ["landed", "completed"])
def test_it_is_not_done_before_its_steps_have_landed(board: Board, unblock_on: str) -> None:
    board.rules = board.rules.model_copy(update={"unblock_on": unblock_on})
    root, steps = submit(board, workflow(step("a")))
    row = board.claimed()
    board.finish_with_work(row, "m1")
    assert state(board, root) == "waiting"
    settle(board, "m1", MergeState.CONFLICT)
    assert state(board, root) == "failed", "what its step made came back"
    assert "its merge request ended as conflict" in str(board.detail(root)["error_message"])
    board.retry(steps["a"])
    assert state(board, root) == "waiting"
    row = board.claimed()
    board.finish_with_work(row, "m2")
    settle(board, "m2", MergeState.LANDED)
    assert state(board, root) == "completed"


def test_a_failed_step_ends_those_behind_it_alone_and_is_named_once_all_have_ended(board: Board) -> None:
    root, steps = submit(board, THREE)
    run_next(board, success=False, error_code="broken", error_message="It broke.", retryable=False)
    assert [state(board, steps[name]) for name in "abc"] == ["failed", "failed", "pending"]
    assert state(board, root) == "waiting", "c goes on"
    assert board.do(family.leaderless) == []
    run_next(board)
    row = board.do(lambda conn: tasks.find(conn, root))
    assert (row["status"], row["error_code"]) == (TaskStatus.FAILED, "dependency_failed")
    assert row["error_message"] == (f"Its step a ({steps['a']}) is failed: It broke. 2 of 3 steps did not succeed.")


@pytest.mark.parametrize("which", ["step", "whole"])
def test_a_retry_of_the_step_or_of_the_whole_runs_what_did_not_succeed(board: Board, which: str) -> None:
    root, steps = submit(board, THREE)
    run_next(board, success=False, error_code="broken", retryable=False)
    run_next(board)
    board.do(lambda conn: tasks.retry(conn, steps["a"] if which == "step" else root, START, board.rules))
    assert state(board, root) == "waiting"
    assert [state(board, steps[name]) for name in "abc"] == ["pending", "waiting", "completed"]
    assert [run_next(board), run_next(board)] == [steps["a"], steps["b"]]
    assert state(board, root) == "completed"


def test_a_cancelled_one_takes_its_steps_with_it_and_can_be_run_again(board: Board) -> None:
    root, steps = submit(board, THREE)
    run_next(board)
    board.do(lambda conn: tasks.cancel(conn, root, START, board.rules, reason="No."))
    board.do(lambda conn: followers.end(conn, family.leaderless(conn), START, board.rules))
    assert [state(board, steps[name]) for name in "abc"] == ["completed", "cancelled", "cancelled"]
    assert state(board, root) == "cancelled"
    board.do(lambda conn: tasks.retry(conn, root, START, board.rules))
    assert [state(board, steps[name]) for name in "abc"] == ["completed", "pending", "pending"]
    assert state(board, root) == "waiting"


def test_a_retry_of_the_whole_does_not_run_a_follower_that_is_no_step(board: Board) -> None:
    root, steps = submit(board, workflow(step("a")))
    (follower,) = board.submit({"parent_task_id": root})
    board.cancel(follower)
    board.cancel(root)
    board.cancel(steps["a"])
    board.retry(root)
    assert [state(board, task) for task in (root, steps["a"], follower)] == ["waiting", "pending", "cancelled"]


def test_its_first_steps_wait_for_what_it_waits_for_and_others_wait_for_it(board: Board) -> None:
    before, root, after = board.submit(
        {"name": "before"}, workflow(step("a"), step("b", "a"), name="w", wait_for=["before"]), {"wait_for": ["w"]}
    )
    (first, _) = (row["task_id"] for row in board.do(lambda conn: family.steps(conn, root)))
    assert [state(board, task) for task in (first, after)] == ["waiting", "waiting"]
    assert run_next(board) == before
    assert [state(board, task) for task in (first, after)] == ["pending", "waiting"]
    run_next(board)
    run_next(board)
    assert (state(board, root), state(board, after)) == ("completed", "pending")


def test_the_failure_of_what_it_waits_for_is_its_own_and_reaches_those_behind_it(board: Board) -> None:
    before, root, after = board.submit(
        {"name": "before", "title": "Before"}, workflow(step("a"), name="w", wait_for=["before"]), {"wait_for": ["w"]}
    )
    run_next(board, success=False, error_code="broken", retryable=False)
    row = board.do(lambda conn: tasks.find(conn, root))
    assert row["status"] == "failed" and f"It waits for {before} (Before)" in str(row["error_message"])
    assert state(board, after) == "failed"


def test_the_queue_takes_all_of_it_or_nothing(board: Board) -> None:
    board.max_size = 3
    with pytest.raises(Conflict, match="4 more were submitted, 3 are allowed"):
        board.submit(THREE)
    with pytest.raises(InvalidInput) as refused:
        board.submit(workflow(step("a"), step("b", claims=["../out"])))
    assert [error["field"] for error in refused.value.details["errors"]] == ["steps.b.claims"]
    assert board.claim() is None
    board.max_size = 4
    submit(board, THREE)


def test_a_step_is_told_a_bounded_part_of_each_report_and_has_all_in_a_file(board: Board, tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(20)]
    _, steps = submit(board, workflow(*map(step, names), step("last", *names, ignore_dependency_failure=True)))
    run_next(board, success=False, error_code="broken", retryable=False)
    for _ in names[1:]:
        run_next(board, result={"text": "x" * 5000, "turns": 3})
    place = SimpleNamespace(db=board.db, project=SimpleNamespace(logs_dir=tmp_path / "logs", root=tmp_path))
    task = board.do(lambda conn: tasks.find(conn, steps["last"]))
    text, variables = standing.of_earlier_steps(cast(WorktreeContext, place), task)
    assert "## s0 (failed)\n\n## s1\n" + "x" * 3999 + "…\n\n## s2\n" in text
    assert text.endswith("5 more are in the file that CORRAL_RESULTS_FILE names.") and len(text) < 61_000
    entries = json.loads(Path(variables["CORRAL_RESULTS_FILE"]).read_text())
    assert [entry["step"] for entry in entries] == names and entries[1]["result"]["text"] == "x" * 5000


def test_what_the_database_refuses_of_it_refuses_all_of_it(board: Board) -> None:
    full = "CREATE TRIGGER full BEFORE INSERT ON tasks WHEN NEW.step = 'c' BEGIN SELECT RAISE(ABORT, 'full'); END"
    board.do(lambda conn: conn.exec_driver_sql(full))
    with pytest.raises(Exception, match="full"):
        board.submit(THREE)
    assert board.do(lambda conn: views.listing(conn)) == [], "no step, and nothing that leads it"


def test_the_same_key_again_makes_no_second_one(board: Board) -> None:
    first = board.submit({**THREE, "idempotency_key": "k"})
    assert board.submit({**THREE, "idempotency_key": "k"}) == first
    assert len(board.do(lambda conn: family.children(conn, first[0]))) == 3


def test_a_step_that_several_agents_do_gives_them_its_name(board: Board) -> None:
    root, steps = submit(board, workflow(step("a"), step("b", "a", agents=2)))
    members = board.do(lambda conn: family.steps(conn, steps["b"]))
    assert [(row["step"], row["status"]) for row in members] == [("b", "waiting")] * 2 and list(steps) == ["a", "b"]
    run_next(board)
    assert [state(board, row["task_id"]) for row in members] == ["pending", "pending"]
    assert state(board, root) == "waiting"


@pytest.mark.parametrize(("rule", "ends_as"), [("all", "failed"), ("concat", "completed")])
def test_a_step_whose_agents_land_each_their_own_is_over_once_all_of_them_have(
    board: Board, rule: str, ends_as: str
) -> None:
    root, steps = submit(board, workflow(step("a", agents=2, combine=rule), step("b", "a")))

    def look() -> list[str]:
        board.do(lambda conn: combining.settle_all(conn, START, board.rules))
        return [state(board, task) for task in (steps["a"], steps["b"], root)]

    for merge_id in ("m1", "m2"):
        row = board.claimed()
        board.finish_with_work(row, merge_id)
    assert look() == ["waiting"] * 3
    assert not board.do(combining.is_any_decided), "nothing is to be done yet"
    settle(board, "m1", MergeState.LANDED)
    assert look() == ["waiting"] * 3
    settle(board, "m2", MergeState.CONFLICT)
    assert look()[0] == ends_as, "the work of one came back"
    if rule == "all":
        assert look() == ["failed"] * 3
        board.retry(root)
        row = board.claimed()
        assert row["parent_task_id"] == steps["a"], "the one that came back alone"
        board.finish_with_work(row, "m3")
        settle(board, "m3", MergeState.LANDED)
    assert look() == ["completed", "pending", "waiting"]
