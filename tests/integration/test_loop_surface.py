"""`corral loop` against the real daemon: started, stopped, resumed, landed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put

Coordinate = Callable[..., Coordinated]


@pytest.mark.req("FR-LOOP-003", "FR-LOOP-005")
def test_at_its_limit_it_fails_with_its_best_result_which_lands_if_the_user_says_so(
    coordinate: Coordinate, repo: Path
) -> None:
    house = coordinate(repo)
    work = "case $CORRAL_ITERATION in 1) echo 0.5;; 2) echo 0.8;; *) echo 0.6;; esac > score.txt"
    loop = (
        "loop",
        "start",
        "--command",
        work,
        "--threshold",
        "cat score.txt",
        "--target",
        ">=0.9",
        "--max-iterations",
        "3",
    )
    task_id = house.json(*loop)["task_id"]
    house.run("wait", task_id, check=False)
    status = house.json("loop", "status", task_id)
    assert (status["status"], status["error_code"]) == ("failed", "max_iterations_exceeded")
    assert (status["iterations"], status["best"]["iteration"]) == (3, 2)
    rows = house.json("loop", "history", task_id)
    assert [row["evaluations"][0]["value"] for row in rows] == [0.5, 0.8, 0.6]
    assert [row["best"] for row in rows] == [False, True, False]
    best = git(repo, "rev-parse", f"refs/corral/loops/{task_id}/best")
    assert git(repo, "show", f"{best}:score.txt") == "0.8"
    detail = house.json("task", "detail", task_id)
    assert detail["result"]["best"]["iteration"] == 2 and detail["merge"] is None
    assert "+0.8" in house.run("loop", "diff", task_id, "--from", "1", "--to", "2").stdout
    for again, done in ((("task", "retry", task_id), 6), (("loop", "resume", task_id, "--max-iterations", "2"), 8)):
        house.run(*again)
        house.run("wait", task_id, check=False)
        status = house.json("loop", "status", task_id)
        assert (status["error_code"], status["iterations"]) == ("max_iterations_exceeded", done), "it counts anew"
    assert (status["best"]["iteration"], status["counted_iterations"]) == (2, 2)
    assert "8: 2 of 2 since it was resumed" in house.run("loop", "status", task_id).stdout
    merge = house.json("loop", "land", task_id)
    house.run("wait", task_id)
    assert house.json("merge", "detail", merge["merge_id"])["state"] == "landed"
    assert git(repo, "show", "main:score.txt") == "0.8"
    assert [task["task_id"] for task in house.json("task", "list", "--status", "landed")] == [task_id]


@pytest.mark.req("FR-LOOP-006")
def test_a_stopped_loop_is_resumed_from_its_last_iteration(coordinate: Coordinate, repo: Path) -> None:
    house = coordinate(repo)
    work = "echo $CORRAL_ITERATION >> seen.txt; test $CORRAL_ITERATION != 2 || test -f $CORRAL_PROJECT/go || sleep 60"
    go = repo / "go"
    work = work.replace("$CORRAL_PROJECT/go", str(go))
    task_id = house.json("loop", "start", "--command", work, "--test", "test $(wc -l < seen.txt) = 3")["task_id"]
    eventually(lambda: house.json("loop", "status", task_id)["running_iteration"] == 2)
    stopped = house.json("loop", "stop", task_id, "--reason", "enough")
    assert stopped["iterations"] == 1
    eventually(lambda: house.json("loop", "status", task_id)["status"] == "cancelled")
    assert house.json("loop", "list")[0]["task_id"] == task_id
    go.touch()
    house.run("loop", "resume", task_id)
    house.run("wait", task_id)
    rows = house.json("loop", "history", task_id)
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert git(repo, "show", "main:seen.txt").split() == ["1", "2", "3"]
    again = house.run("loop", "resume", task_id, check=False)
    assert again.returncode == 4 and "has converged" in again.stderr


@pytest.mark.req("FR-LOOP-007")
def test_a_loop_ends_at_its_time_limit_also_in_the_middle_of_an_iteration(coordinate: Coordinate, repo: Path) -> None:
    house = coordinate(repo)
    work = "echo $CORRAL_ITERATION > n.txt; test $CORRAL_ITERATION = 1 || sleep 60"
    loop: tuple[Any, ...] = ("loop", "start", "--command", work, "--test", "false", "--max-iterations", "unlimited")
    task_id = house.json(*loop, "--timeout", "3")["task_id"]
    house.run("wait", task_id, check=False)
    status = house.json("loop", "status", task_id)
    assert (status["status"], status["error_code"]) == ("failed", "timeout_exceeded")
    assert status["iterations"] == 2 and 3 <= status["elapsed_s"] < 15
    rows = house.json("loop", "history", task_id)
    assert [row["verdict"] for row in rows] == ["not_converged", "not_converged"]
    assert rows[0]["best"] is True and "before it could be evaluated" in rows[1]["evaluations"][-1]["evidence"]


@pytest.mark.req("FR-LOOP-001")
def test_a_loop_without_a_criterion_or_with_a_wrong_one_is_refused(coordinate: Coordinate, repo: Path) -> None:
    house = coordinate(repo)
    for args, reason in (
        (["--command", "true"], "needs a criterion"),
        (["--test", "true"], "needs --command"),
        (["--command", "true", "--threshold", "cat x"], "needs --target"),
        (["--command", "true", "--threshold", "cat x", "--target", "good"], "write it like"),
        (["--command", "true", "--test", "true", "--max-iterations", "0"], "is no number"),
        (["--command", "true", "--test", "true", "--max-iterations", "many"], "is no number"),
        (["--command", "true", "--test", "true", "--timeout", "-1"], "timeout_s"),
        (["--command", "true", "--target", ">1"], "need --threshold"),
        (["--command", "true", "--threshold", "x", "--target", "1", "--pattern", "("], "no regular expression"),
    ):
        done = house.run("loop", "start", *args, check=False)
        assert done.returncode == 2 and reason in done.stderr, (args, done.stderr)
    assert house.json("task", "list") == []
    task_id = house.submit("plain", "true")
    done = house.run("loop", "status", task_id, check=False)
    assert done.returncode == 3 and "is no loop" in done.stderr


@pytest.mark.req("FR-LOOP-001")
def test_an_agent_that_gets_only_an_input_is_told_it(coordinate: Coordinate, repo: Path, tmp_path: Path) -> None:
    front = "name: counter\ndescription: d\nrunner: counter\ncommand: [tee, asked.txt]"
    put(repo / ".claude" / "agents" / "counter.md", f"---\n{front}\n---\nYou are the counter.\n")
    house = coordinate(repo)
    file = put(tmp_path / "input.json", json.dumps({"task": "Count to one", "file": "one.txt"}))
    loop = ("loop", "start", "--agent", "counter", "--input", str(file), "--test", "grep 'Count to one' asked.txt")
    task_id = house.json(*loop)["task_id"]
    house.run("wait", task_id)
    assert house.json("task", "detail", task_id)["title"] == "Count to one"
    asked = git(repo, "show", "main:asked.txt")
    assert "You are the counter." in asked and '"file": "one.txt"' in asked.partition("Your input:")[2]
