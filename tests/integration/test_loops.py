"""Loops with a real supervisor, real git and real processes: repeated until a criterion is met, in one worktree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from corral.store.schema_project import loop_iterations
from corral.work.loops import store as loop_rows
from corral.work.loops.history import past_of, start_sha
from corral.work.merges.store import merges
from corral.work.tasks import tasks
from corral.work.workers import execution
from tests.conftest import commit_all, git
from tests.integration.supervision import House, houses

Open = Callable[..., House]

COUNT_UP = "n=$(cat n.txt 2>/dev/null || echo 0); n=$((n + 1)); echo $n > n.txt"
"""A work that comes nearer with each iteration."""


@pytest.fixture
def house(repo: Path) -> Iterator[Open]:
    yield from houses(repo)


def looped(*until: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"loop": {"until": list(until), **fields}}


def suite(command: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "tests", "command": command, **fields}


def threshold(command: str, target: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "threshold", "command": command, "target": target, **fields}


def history(house: House, task_id: str) -> list[dict[str, Any]]:
    rows = house.db.read(lambda conn: loop_rows.iterations(conn, task_id))
    return [{**row, **json.loads(row["record"])} for row in rows]


@pytest.mark.req("FR-LOOP-001", "FR-LOOP-002", "FR-LOOP-005")
def test_it_is_repeated_in_one_worktree_until_the_tests_pass_and_only_then_goes_to_landing(
    house: Open, repo: Path
) -> None:
    home = house()
    (repo / ".gitignore").write_text(".corral/\ncache.txt\n")
    commit_all(repo, "ignore")
    base = git(repo, "rev-parse", "HEAD")
    work = (
        f"{COUNT_UP}; pwd >> cache.txt; cp cache.txt seen.txt; cat $CORRAL_FEEDBACK_FILE > told-$CORRAL_ITERATION.txt"
    )
    check = "echo at $(cat n.txt); test $(cat n.txt) = 3 && test $(wc -l < seen.txt) = 3 && test ! -e cache.txt"
    task_id = home.submit(work, **looped(suite(check)))
    detail = home.until_status(task_id, "completed", "failed", "dead")
    home.settle()
    assert detail["status"] == "completed", detail
    assert detail["result"]["iterations"] == 3
    rows = history(home, task_id)
    assert [row["verdict"] for row in rows] == ["not_converged", "not_converged", "converged"]
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert rows[0]["evaluations"][0]["evidence"].startswith("Exit code 1.\nat 1")
    (merge,) = home.db.read(merges.listing)
    assert (merge["base_sha"], merge["head_sha"]) == (base, rows[2]["head_sha"])
    assert git(repo, "show", f"{merge['head_sha']}:told-1.txt") == ""
    prompt = git(repo, "show", f"{merge['head_sha']}:told-3.txt")
    assert "This is iteration 3 of at most 10" in prompt and "at 2" in prompt
    assert git(repo, "rev-parse", f"refs/corral/loops/{task_id}/best") == rows[2]["head_sha"]
    assert [row["outcome"] for row in detail["attempt_history"]] == ["completed"] * 3
    assert home.worktrees.listing() == [] and not home.worktree_context.kept


@pytest.mark.req("FR-LOOP-002", "FR-LOOP-004")
def test_a_criterion_that_cannot_be_evaluated_is_inconclusive_and_says_why(house: Open) -> None:
    home = house(loops={"criterion_timeout_s": 2})
    until = [
        suite("no-such-command"),
        suite("kill -9 $$"),
        suite("sleep 60"),
        suite("seq 100000000"),
        threshold("echo nan", ">1"),
        threshold("echo nothing", ">1"),
        threshold("echo 5; exit 3", ">1"),
        threshold("printf aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", ">1", pattern="(a|aa)+$"),
        {"kind": "custom", "command": "exit 7"},
        {"kind": "custom", "command": "python3 -c 'raise SystemError'"},
        {"kind": "custom", "function": "missing.py:f"},
        {"kind": "custom", "function": "says.py:says_yes"},
        {"kind": "judge", "rubric": "It is good."},
    ]
    script = "printf 'def says_yes(it):\\n print(1)\\n return True\\n' > says.py"
    task_id = home.submit(script, **looped(*until, max_iterations=1))
    detail = home.until_status(task_id, "failed", timeout_s=120)
    assert detail["error_code"] == "max_iterations_exceeded"
    (only,) = history(home, task_id)
    assert only["verdict"] == "inconclusive"
    assert [evaluation["verdict"] for evaluation in only["evaluations"]] == ["inconclusive"] * len(until)
    texts = [evaluation["evidence"] for evaluation in only["evaluations"]]
    wanted = ("could not be run", "killed", "not done after 2 s", "MB", "compared", "number", "exit code 3", "pattern")
    for text, evidence in zip(
        (*wanted, "Exit code 7", "raised", "raised", "error: TypeError", "Messages API"), texts, strict=True
    ):
        assert text in evidence, (text, evidence)


@pytest.mark.req("FR-LOOP-004")
def test_a_condition_gets_the_iteration_and_decides(house: Open, repo: Path) -> None:
    (repo / "check.py").write_text(
        "def check(seen):\n    assert seen['result']['exit_code'] == 0 and seen['head_sha'] != seen['base_sha']\n"
        "    return 1 if seen['iteration'] == 2 else 0\n"
    )
    commit_all(repo, "condition")
    home = house()
    by_function = home.submit(COUNT_UP, **looped({"kind": "custom", "function": "check.py:check"}))
    by_command = home.submit(
        COUNT_UP,
        **looped({"kind": "custom", "command": "grep -q '\"iteration\": 2' && exit 2; exit 0"}, land_best=True),
    )
    assert home.until_status(by_function, "completed", "failed")["result"]["iterations"] == 2
    failed = home.until_status(by_command, "failed")
    assert (failed["error_code"], failed["result"]["iterations"]) == ("condition_failed", 2)
    assert [row["task_id"] for row in home.db.read(merges.listing)] == [by_function], "what has failed does not land"


@pytest.mark.req("FR-LOOP-002")
def test_a_failed_work_has_not_converged_whatever_its_criteria_say(house: Open) -> None:
    home = house()
    task_id = home.submit(f"{COUNT_UP}; test $CORRAL_ITERATION = 2", **looped(suite("true")))
    assert home.until_status(task_id, "completed", "failed", "dead")["status"] == "completed"
    first, second = history(home, task_id)
    assert (first["verdict"], first["evaluations"][0]["kind"]) == ("not_converged", "work")
    assert second["verdict"] == "converged"


@pytest.mark.req("FR-LOOP-006")
def test_a_damaged_checkpoint_is_passed_over(house: Open, repo: Path) -> None:
    home = house()
    task_id = home.submit(COUNT_UP, **looped(suite("test $(cat n.txt) = 9"), max_iterations=3))
    home.until_status(task_id, "failed")
    rows = history(home, task_id)
    table = loop_iterations
    home.db.write(lambda conn: conn.execute(update(table).where(table.c.iteration == 3).values(record="{broken")))
    past = past_of(home.worktree_context, task_id)
    assert past is not None and past.checkpoint is not None
    assert (past.checkpoint["head_sha"], past.next_iteration) == (rows[1]["head_sha"], 4)
    assert start_sha(past, "tip") == rows[1]["head_sha"]
    gone = {"head_sha": "deadbeef" * 5}
    home.db.write(lambda conn: conn.execute(update(table).where(table.c.iteration == 2).values(**gone)))
    past = past_of(home.worktree_context, task_id)
    assert past is not None and start_sha(past, "tip") == rows[0]["head_sha"], "its commit is gone"


@pytest.mark.req("FR-LOOP-005")
def test_a_worktree_is_kept_before_its_task_can_be_claimed_again(house: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    home, kept = house(), list[bool]()

    def at(point: str) -> None:
        if point == "task.closed" and home.status(task_id) == "pending":
            kept.append(task_id in home.worktree_context.kept)

    monkeypatch.setattr(execution, "crash_point", at)
    task_id = home.submit(COUNT_UP, **looped(suite("test $(cat n.txt) = 2")))
    assert home.until_status(task_id, "completed", "failed", "dead")["status"] == "completed"
    assert kept == [True]


@pytest.mark.req("FR-LOOP-005")
def test_a_kept_worktree_goes_when_its_loop_is_cancelled_between_two_iterations(house: Open) -> None:
    home = house()
    task_id = home.submit(COUNT_UP, **looped(suite("false"), max_iterations=50))
    home.until(lambda: bool(home.worktree_context.kept))
    home.db.write(lambda conn: tasks.cancel(conn, task_id, home.now(), home.settings.tasks))
    home.until(
        lambda: home.status(task_id) == "cancelled" and not home.worktree_context.kept and not home.worktrees.listing()
    )
