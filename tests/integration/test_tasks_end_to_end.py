"""What a user does with tasks, merges, worktrees and waiting, through the command line alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit, commit_on, git
from tests.support.coordinated import Coordinated, eventually

QUICK = "tasks: {max_retries: 1, retry_initial_s: 0}"


def detail(house: Coordinated, task: str) -> dict[str, Any]:
    answer = house.ask("GET", f"/tasks/{task}/detail")
    assert isinstance(answer, dict)
    return answer


def reached(house: Coordinated, task: str, status: str) -> dict[str, Any]:
    """The task's detail as soon as it is in a state."""
    return dict(eventually(lambda: (row := detail(house, task))["status"] == status and row))


def started(house: Coordinated, *args: str) -> subprocess.Popen[str]:
    """A command that goes on while the test does something else."""
    return subprocess.Popen([sys.executable, "-m", "corral", *args], cwd=house.root, stdout=subprocess.PIPE, text=True)


def branch_with(house: Coordinated, name: str, files: dict[str, str]) -> str:
    """A branch of the user's with one commit; the checkout stays where it is."""
    return commit_on(house.root, name, files)


@pytest.mark.req("FR-QUEUE-009", "FR-QUEUE-010")
def test_a_task_that_fails_is_tried_again_and_is_dead_in_the_end_and_can_be_retried(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config=QUICK)
    task = house.submit(
        "fragile", f"echo try; echo $CORRAL_TASK_ID >> {tmp_path}/tries; test -e {tmp_path}/mended && echo x > x"
    )
    child = house.submit("child", "test -f x && echo y > y", "--wait-for", task)
    dead = reached(house, task, "dead")
    assert dead["attempts"] == 2
    assert dead["error_code"] and dead["error_message"]
    tried = [
        (attempt["number"], attempt["outcome"], attempt["error_code"], attempt["runner"])
        for attempt in dead["attempt_history"]
    ]
    assert tried == [(1, "failed", "command_failed", "command"), (2, "failed", "command_failed", "command")]
    assert all(
        attempt["host"] and attempt["branch"] and attempt["claimed_at"] <= attempt["ended_at"]
        for attempt in dead["attempt_history"]
    )
    assert "attempt 2" in house.run("task", "detail", task).stdout
    assert dead["result"]["exit_code"] == 1
    assert len((tmp_path / "tries").read_text().splitlines()) == 2
    assert "try" in house.run("task", "logs", task, "--attempt", "1").stdout
    assert house.run("task", "logs", task, "--attempt", "7", check=False).returncode == 3
    orphan = reached(house, child, "failed")
    assert orphan["error_code"] == "dependency_failed"
    waited = house.run("wait", child, "--json", check=False)
    assert waited.returncode == 1
    assert json.loads(waited.stdout)["tasks"] == [
        {
            "task_id": child,
            "number": 2,
            "title": "child",
            "status": "failed",
            "merge_state": None,
            "merge_id": None,
            "outcome": "failed",
            "reason": orphan["error_message"],
        }
    ]
    (tmp_path / "mended").touch()
    house.run("task", "retry", task)
    assert house.json("wait", task, child, "--timeout", "60")["done"] is True
    assert detail(house, child)["error_code"] is None
    assert (house.root / "y").read_text() == "y\n"


def test_a_claim_on_a_folder_covers_what_is_in_it_however_it_is_written(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}\n")
    written = ["src", "./src/a.py", "not/there", "db:users"]
    task = house.submit("claims", "true", *(part for claim in written for part in ("--claims", claim)))
    assert house.json("task", "detail", task)["claims"] == ["db:users", "not/there", "src/", "src/a.py"]
    offered = house.json("task", "submit", "--title", "x", "--description", "x", "--claims", "src/*.py")["task_id"]
    house.hook("SessionStart", "hand", source="startup")
    assert house.ask("POST", "/tasks/claim", {"session_id": "hand"})["task_id"] == offered
    between = house.json("task", "submit", "--title", "y", "--description", "y", "--claims", "src")["task_id"]
    house.hook("SessionStart", "other", source="startup")
    assert house.ask("POST", "/tasks/claim", {"session_id": "other"})["success"] is False, between


@pytest.mark.req("FR-QUEUE-007")
def test_a_batch_is_queued_whole_or_not_at_all(house: Coordinated, tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    tasks = [
        {"name": "one", "title": "one", "command": "echo 1 > 1.txt"},
        {"title": "two", "command": "cat 1.txt > 2.txt", "wait_for": ["one"]},
    ]
    file.write_text(json.dumps({"tasks": [*tasks, {"title": "circle", "command": "true", "wait_for": ["nobody"]}]}))
    assert house.run("task", "batch-submit", "--file", str(file), check=False).returncode == 2
    assert house.json("task", "list") == []
    file.write_text(json.dumps({"tasks": tasks}))
    ids = house.json("task", "batch-submit", "--file", str(file))["task_ids"]
    assert house.json("wait", *ids, "--timeout", "60")["done"] is True
    assert (house.root / "2.txt").read_text() == "1\n"


@pytest.mark.req("D13")
def test_the_same_key_again_is_the_same_task(shared_house: Coordinated) -> None:
    task = shared_house.submit("once", "echo x >> x", "--idempotency-key", "k1")
    assert shared_house.submit("once", "echo x >> x", "--idempotency-key", "k1") == task
    shared_house.run("wait", task, "--timeout", "60")
    assert shared_house.submit("once", "echo x >> x", "--idempotency-key", "k1") == task
    assert (shared_house.root / "x").read_text() == "x\n"
    assert [row["title"] for row in shared_house.json("task", "list")].count("once") == 1


def test_logs_can_be_followed_to_the_end(shared_house: Coordinated, tmp_path: Path) -> None:
    go = tmp_path / "go"
    task = shared_house.submit("talk", f"echo early; until [ -e {go} ]; do sleep 0.05; done; echo late")
    with started(shared_house, "task", "logs", task, "--follow") as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "early\n"
        assert "late" not in shared_house.run("task", "logs", task).stdout
        go.touch()
        assert follower.stdout.read().splitlines()[-1] == "late"
        assert follower.wait(30) == 0


def test_wait_for_everything_that_is_open_and_for_no_longer_than_asked(house: Coordinated, tmp_path: Path) -> None:
    go = tmp_path / "go"
    slow = house.submit("slow", f"until [ -e {go} ]; do sleep 0.05; done; echo x > slow.txt")
    chained = house.submit("chained", "echo x > chained.txt", "--wait-for", slow)
    began = time.monotonic()
    over = house.run("wait", "--all", "--timeout", "1", "--json", check=False)
    assert 1 <= time.monotonic() - began < 60
    assert over.returncode == 1
    answer = json.loads(over.stdout)
    assert answer["done"] is False
    assert {row["task_id"]: row["merge_state"] for row in answer["tasks"]} == {slow: None, chained: None}
    assert over.stderr == ""
    assert house.run("wait", "--all", "--timeout", "0", check=False).returncode == 1
    with started(house, "wait", "--all", "--timeout", "60", "--json") as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        go.touch()
        assert waiting.wait(60) == 0
        assert waiting.stdout is not None
        done = json.loads(waiting.stdout.read())
    assert done["done"] is True and {row["task_id"] for row in done["tasks"]} == {slow, chained}
    assert {row["merge_state"] for row in done["tasks"]} == {"landed"}


def test_wait_covers_open_merges_and_tells_of_a_conflict(house: Coordinated) -> None:
    branch_with(house, "left", {"README.md": "left\n"})
    branch_with(house, "right", {"README.md": "right\n"})
    house.run("merge", "submit", "left")
    house.run("merge", "submit", "right")
    done = house.run("wait", "--all", "--timeout", "60", "--json", check=False)
    states = {merge["branch"]: merge["state"] for merge in house.json("merge", "list")}
    assert states == {"left": "landed", "right": "conflict"}
    answer = json.loads(done.stdout)
    assert done.returncode == 1, "whether it came back before the question or after it"
    (conflict,) = (row for row in answer["merges"] if row["state"] == "conflict")
    assert "README.md" in conflict["reason"]


def test_a_task_whose_merge_comes_back_is_not_done_and_can_be_retried(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(verify=("test ! -e ba[d].txt",))
    task = house.submit("bad", "test -e good.txt || echo x > bad.txt; echo y > other.txt")
    waited = house.run("wait", task, "--timeout", "60", "--json", check=False)
    assert waited.returncode == 1
    answer = json.loads(waited.stdout)
    assert "test ! -e" in answer["tasks"][0].pop("reason")
    (need,) = answer.pop("needs_you")
    merge_id = need["ids"]["merge_id"]
    assert need["kind"] == "returned_merge" and f"corral merge log {merge_id[:8]}" in need["remedy"]
    red = {"status": "completed", "merge_state": "failed", "outcome": "red"}
    assert answer == {
        "tasks": [{"task_id": task, "number": 1, "title": "bad", "merge_id": merge_id, **red}],
        "waits_for_person": False,
        "merges": [],
        "paused": [],
        "done": False,
    }
    merge = detail(house, task)["merge"]
    assert merge["landed_sha"] is None and merge["reason"]
    assert (merge["receipt"]["status"], merge["receipt"]["exit_code"]) == ("failed", 1)
    assert not (house.root / "other.txt").exists()
    commit(house.root, {"good.txt": "x\n"})
    house.run("task", "retry", task)
    assert house.json("wait", task, "--timeout", "60")["done"] is True
    assert (house.root / "other.txt").is_file() and not (house.root / "bad.txt").exists()


def test_a_branch_of_ones_own_is_submitted_cancelled_retried_and_its_log_read(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    go = tmp_path / "go"
    house = coordinate(verify=(f"echo verifying; until [ -e {go} ]; do sleep 0.05; done",))
    head = branch_with(house, "mine", {"mine.txt": "x\n"})
    git(house.root, "switch", "-q", "mine")
    submitted = house.json("merge", "submit", "--title", "My branch")
    assert set(submitted) == {"merge_id", "task_id", "branch", "target", "state", "outcome", "reason"}
    assert (submitted["branch"], submitted["target"], submitted["task_id"]) == ("mine", "main", None)
    merge = submitted["merge_id"]
    assert house.json("merge", "submit", "mine")["merge_id"] == merge, "the same head again is the same request"
    eventually(lambda: "verifying" in house.run("merge", "log", merge).stdout)
    assert house.json("merge", "cancel", merge)["state"] == "cancelled"
    assert git(house.root, "rev-parse", "mine") == head
    assert git(house.root, "ls-tree", "main", "--", "mine.txt") == ""
    house.run("merge", "retry", merge)
    go.touch()
    eventually(lambda: house.json("merge", "detail", merge)["state"] == "landed")
    assert git(house.root, "show", "main:mine.txt") == "x"
    assert "verifying" in house.run("merge", "log", merge, "--follow").stdout
    assert house.json("merge", "submit", "mine") == {
        "merge_id": None,
        "branch": "mine",
        "target": "main",
        "state": None,
    }


def test_a_daemon_that_stops_and_starts_loses_no_task(house: Coordinated, tmp_path: Path) -> None:
    go = tmp_path / "go"
    tasks = [house.submit(f"task {n}", f"until [ -e {go} ]; do sleep 0.05; done; echo {n} > {n}.txt") for n in range(3)]
    reached(house, tasks[-1], "running")
    house.stop()
    go.touch()
    assert {row["status"] for row in house.json("task", "list")} <= {"interrupted", "pending", "running", "completed"}
    assert house.json("wait", *tasks, "--timeout", "60")["done"] is True
    assert [detail(house, task)["attempts"] for task in tasks] == [1, 1, 1]
    assert all((house.root / f"{n}.txt").is_file() for n in range(3))


def test_a_cancellation_says_what_fails_with_it_and_what_brings_it_back(house: Coordinated) -> None:
    house.run("pause")
    first = house.json("task", "submit", "-t", "first", "-c", "true")["task_id"]
    second = house.json("task", "submit", "-t", "second", "-c", "true", "--wait-for", first)["task_id"]
    assert "dependents" not in house.json("task", "cancel", second)
    house.run("task", "retry", second)
    said = house.run("task", "cancel", first).stdout
    assert (
        f"1 task that waits for it fails with it. To run it, and them, all the same: corral task retry {first[:8]}"
        in said
    )
    house.run("task", "retry", first)
    assert house.json("task", "detail", second)["status"] == "waiting"
