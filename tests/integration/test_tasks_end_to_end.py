"""What a user does with tasks, merges, worktrees and waiting, through the command line alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import commit, git
from tests.support.coordinated import Coordinated, eventually

QUICK = "tasks: {max_retries: 1, retry_initial_s: 0}"
NO_RETRY = "tasks: {max_retries: 0}"
ONE_AT_A_TIME = "supervisor: {max_agents: 1}"


def detail(house: Coordinated, task: str) -> dict[str, Any]:
    found = house.ask("GET", f"/tasks/{task}/detail")
    assert isinstance(found, dict)
    return found


def reached(house: Coordinated, task: str, status: str) -> dict[str, Any]:
    """The task's detail as soon as it is in a state."""
    return dict(eventually(lambda: (row := detail(house, task))["status"] == status and row))


def alive(pid: int) -> bool:
    """Whether a process does anything; one that is dead and waits to be reaped does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def started(house: Coordinated, *args: str) -> subprocess.Popen[str]:
    """A command that goes on while the test does something else."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "daemon")}
    return subprocess.Popen(
        [sys.executable, "-m", "corral", *args], cwd=house.root, env=env, stdout=subprocess.PIPE, text=True
    )


def branch_with(house: Coordinated, name: str, files: dict[str, str]) -> str:
    """A branch of the user's with one commit; the checkout stays where it is."""
    git(house.root, "switch", "-q", "-c", name)
    sha = commit(house.root, files)
    git(house.root, "switch", "-q", "main")
    return sha


@pytest.mark.req("FR-QUEUE-008")
def test_a_chain_sees_what_landed_before_it(shared_house: Coordinated, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = shared_house.submit("first", f"until [ -e {go} ]; do sleep 0.05; done; echo 1 > chain.txt")
    second = shared_house.submit("second", "echo 2 >> chain.txt", "--wait-for", first)
    third = shared_house.submit(
        "third", "echo 3 >> chain.txt", "--wait-for", second, "--wait-for", first, "--priority", "10"
    )
    assert [detail(shared_house, task)["status"] for task in (second, third)] == ["waiting", "waiting"]
    go.touch()
    answer = shared_house.json("wait", first, second, third, "--timeout", "60")
    assert answer["done"] is True
    assert (shared_house.root / "chain.txt").read_text() == "1\n2\n3\n"
    assert git(shared_house.root, "log", "--reverse", "--format=%s", "-3").splitlines() == ["first", "second", "third"]


@pytest.mark.req("FR-QUEUE-003")
def test_cancelling_what_has_not_begun_and_what_runs(coordinate: Callable[..., Coordinated], tmp_path: Path) -> None:
    house = coordinate(config=ONE_AT_A_TIME)
    running = house.submit("running", f"echo begun > half.txt; sleep 600 & echo $! > {tmp_path}/child; wait")
    pending = house.submit("pending", "true")
    waiting = house.submit("waiting", "true", "--wait-for", pending)
    eventually(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
    child = int((tmp_path / "child").read_text())
    assert house.json("task", "cancel", pending)["status"] == "cancelled"
    assert detail(house, pending)["status"] == "cancelled"
    assert detail(house, waiting)["status"] == "failed"
    began = time.monotonic()
    house.run("task", "cancel", running, "--reason", "wrong idea")
    stopped = reached(house, running, "cancelled")
    assert time.monotonic() - began < 20
    assert not alive(child)
    assert stopped["cancel_reason"] == "wrong idea"
    # What it had made is saved, and its slot is free again.
    (saved,) = eventually(lambda: house.json("worktree", "recover"))
    assert saved["files"] == ["half.txt"]
    assert house.json("wait", house.submit("next", "true"), "--timeout", "60")["done"] is True
    done = house.run("wait", running, pending, "--json", check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["done"] is False


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
    tried = [(one["number"], one["outcome"], one["error_code"], one["runner"]) for one in dead["attempt_history"]]
    assert tried == [(1, "failed", "command_failed", "command"), (2, "failed", "command_failed", "command")]
    assert all(
        one["host"] and one["branch"] and one["claimed_at"] <= one["ended_at"] for one in dead["attempt_history"]
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
        }
    ]
    (tmp_path / "mended").touch()
    house.run("task", "retry", task)
    assert house.json("wait", task, child, "--timeout", "60")["done"] is True
    assert detail(house, child)["error_code"] is None
    assert (house.root / "y").read_text() == "y\n"


def test_work_that_a_failed_attempt_left_is_saved_and_the_next_begins_clean(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config=QUICK)
    task = house.submit(
        "twice",
        f"test ! -e half.txt && echo half > half.txt && test -e {tmp_path}/n || {{ touch {tmp_path}/n; exit 3; }}",
    )
    assert house.json("wait", task, "--timeout", "60")["done"] is True
    assert [one["files"] for one in house.json("worktree", "recover")] == [["half.txt"]]
    assert detail(house, task)["attempts"] == 2


@pytest.mark.req("FR-QUEUE-006")
def test_the_highest_priority_goes_first_and_then_the_oldest(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config=ONE_AT_A_TIME)
    order, go = tmp_path / "order", tmp_path / "go"
    first = house.submit("gate", f"until [ -e {go} ]; do sleep 0.05; done")
    reached(house, first, "running")
    for title, priority in (("low", "1"), ("middle a", "5"), ("high", "10"), ("middle b", "5"), ("lifted", "0")):
        task = house.submit(title, f"echo {title} >> {order}", "--priority", priority)
    house.run("task", "reprioritize", task, "9")
    assert [row["title"] for row in house.json("task", "list", "--status", "pending")] == [
        "high", "lifted", "middle a", "middle b", "low"
    ]  # fmt: skip
    go.touch()
    house.run("wait", "--all", "--timeout", "90")
    assert order.read_text().splitlines() == ["high", "lifted", "middle a", "middle b", "low"]


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


def test_tasks_whose_claims_overlap_never_run_at_the_same_time(shared_house: Coordinated, tmp_path: Path) -> None:
    spans, gate = tmp_path / "spans", tmp_path / "free began"
    hold = f"while [ ! -e '{gate}' ]; do sleep 0.05; done"
    script = f"echo $CORRAL_TASK_ID begin >> {spans}; {hold}; sleep 0.2; echo $CORRAL_TASK_ID end >> {spans}"
    claims = [("src/a.py",), ("src/**",), ("src",), ("api:GET /v1/users", "src/*.py")]
    tasks = [
        shared_house.submit(f"task {n}", script, *(part for key in keys for part in ("--claims", key)))
        for n, keys in enumerate(claims)
    ]
    # The first of them ends when this one has begun: what overlaps with nothing waits for nobody.
    free = shared_house.submit("free", f"touch '{gate}'", "--claims", "docs/**")
    assert shared_house.json("wait", *tasks, free, "--timeout", "90")["done"] is True
    claimed = [line.split() for line in spans.read_text().splitlines()]
    assert [what for _task, what in claimed] == ["begin", "end"] * 4
    assert all(claimed[n][0] == claimed[n + 1][0] for n in range(0, 8, 2))


def test_an_attempt_ends_at_its_timeout(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config=NO_RETRY)
    task = house.submit("slow", "echo x > x; sleep 600", "--timeout", "1")
    assert house.run("wait", task, "--timeout", "60", check=False).returncode == 1
    row = detail(house, task)
    assert row["status"] in ("failed", "dead")
    assert "time" in row["error_code"]
    assert not (house.root / "x").exists()


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
    one = shared_house.submit("once", "echo x >> x", "--idempotency-key", "k1")
    assert shared_house.submit("once", "echo x >> x", "--idempotency-key", "k1") == one
    shared_house.run("wait", one, "--timeout", "60")
    assert shared_house.submit("once", "echo x >> x", "--idempotency-key", "k1") == one
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


def test_a_branch_lands_on_another_target(shared_house: Coordinated) -> None:
    git(shared_house.root, "branch", "stable")
    branch_with(shared_house, "fix", {"fix.txt": "x\n"})
    merge = shared_house.json("merge", "submit", "fix", "--target", "stable")["merge_id"]
    eventually(lambda: shared_house.json("merge", "detail", merge)["state"] == "landed")
    assert git(shared_house.root, "show", "stable:fix.txt") == "x"
    assert git(shared_house.root, "ls-tree", "main", "--", "fix.txt") == ""


def test_worktrees_are_made_given_back_and_recovered(house: Coordinated) -> None:
    old = git(house.root, "rev-parse", "main")
    commit(house.root, {"later.txt": "x\n"})
    made = house.json("worktree", "create", "mine", "--base", old)
    path = Path(made["path"])
    assert path.is_dir() and not (path / "later.txt").exists()
    assert git(path, "branch", "--show-current") == made["branch"]
    assert [row["name"] for row in house.json("worktree", "list")] == ["mine"]
    (path / "README.md").write_text("changed\n")
    (path / "new file.txt").write_text("new\n")
    git(path, "add", "README.md")
    gone = house.json("worktree", "remove", "mine")
    assert not path.exists()
    assert house.json("worktree", "list") == []
    (saved,) = house.json("worktree", "recover")
    assert saved["ref"] == gone["salvage_ref"]
    assert sorted(saved["files"]) == ["README.md", "new file.txt"]
    for name in ("mine", saved["ref"]):
        back = Path(house.json("worktree", "recover", name)["path"])
        assert (back / "README.md").read_text() == "changed\n"
        assert (back / "new file.txt").read_text() == "new\n"
    assert len({row["path"] for row in house.json("worktree", "list")}) == 2


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
