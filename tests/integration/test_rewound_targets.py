"""What landed stays landed, or is told: rewound targets, at the surface of the command line and the queue."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import NotPermitted
from tests.conftest import commit, git
from tests.support.coordinated import Coordinated, eventually

WRITES = "echo {0} > {0}.txt && git add -A && git commit -qm {0}"


def landed(house: Coordinated, name: str, *args: str) -> str:
    """A task whose commit has landed."""
    return house.carry_out(name, WRITES.format(name), *args)


def needs(house: Coordinated, kind: str = "rewound_target") -> list[dict[str, Any]]:
    return [need for need in house.json("status")["needs_you"] if need["kind"] == kind]


def outcome(house: Coordinated, task: str) -> str:
    return str(house.ask("GET", f"/wait?task={task}&timeout_s=0")["tasks"][0]["outcome"])


def typed(remedy: str, beginning: str) -> list[str]:
    """The command in a remedy, as a person types it."""
    (command,) = [part for part in remedy.replace(". Or", ":").split(": ") if part.startswith(beginning)]
    return command.split()


def lost_refs(house: Coordinated, below: str = "lost") -> list[str]:
    return git(house.root, "for-each-ref", "--format=%(objectname)", f"refs/corral/landed/{below}/").split()


def test_a_reset_target_is_told_its_commits_are_kept_and_one_command_brings_them_back(house: Coordinated) -> None:
    before = git(house.root, "rev-parse", "main")
    first = landed(house, "one")
    second = landed(house, "two")
    tip = git(house.root, "rev-parse", "main")
    assert git(house.root, "rev-parse", "refs/corral/landed/tips/main") == tip
    git(house.root, "reset", "--hard", before)
    (need,) = eventually(lambda: needs(house))
    assert "'one', 'two'" in need["what"] and before[:12] in need["what"] and need["since"]
    assert lost_refs(house) == [tip]
    assert (outcome(house, first), outcome(house, second)) == ("missing", "missing")
    assert "Missing from main" in house.run("task", "detail", first).stdout
    waited = house.run("wait", first, check=False)
    assert waited.returncode == 1 and "corral merge accept-rewind main" in waited.stdout + waited.stderr
    waits = house.submit("three", WRITES.format("three"), "--wait-for", second)
    assert "'two' (missing" in house.run("task", "detail", waits).stdout

    house.kill_daemon()
    house.run("daemon", "start")
    assert eventually(lambda: needs(house))[0]["what"] == need["what"], "a restart notices it too"

    git(house.root, "commit", "-q", "--allow-empty", "-m", "the target has moved on")
    command = typed(eventually(lambda: needs(house))[0]["remedy"], "corral merge submit")
    house.run(*command[1:])
    house.run("wait", waits, "--timeout", "60")
    assert needs(house) == [] and lost_refs(house) == []
    git(house.root, "merge-base", "--is-ancestor", tip, "main")
    assert (outcome(house, first), outcome(house, second)) == ("landed", "landed")
    assert (house.root / "three.txt").exists() and (house.root / "one.txt").exists()


def test_a_person_accepts_a_rewind_and_what_waited_for_the_lost_work_starts(house: Coordinated) -> None:
    before = git(house.root, "rev-parse", "main")
    first = landed(house, "one")
    house.configure("supervisor: {max_agents: 0}\n")
    ready = house.submit("two", WRITES.format("two"), "--wait-for", first)
    assert house.json("task", "detail", ready)["status"] == "pending"
    git(house.root, "reset", "-q", "--hard", before)
    eventually(lambda: needs(house))
    assert house.json("task", "detail", ready)["status"] == "waiting", "it had not started, and waits again"
    house.configure("{}\n")
    agent = house.run("merge", "accept-rewind", "main", "--yes", check=False, CLAUDECODE="1")
    assert agent.returncode == 1 and "needs a person" in agent.stderr
    assert house.run("merge", "accept-rewind", "other", "--yes", check=False).returncode == 3
    refused = {"target": "main", "lost": lost_refs(house), "session_id": "somebody"}
    with pytest.raises(NotPermitted):
        house.ask("POST", "/rewinds/accept", refused)
    assert house.json("task", "detail", ready)["status"] == "waiting"
    output = house.run("merge", "accept-rewind", "main", "--yes").stdout
    assert "it lacks 1 landed request: 'one'" in output and lost_refs(house, "kept")[0] in output
    house.run("wait", ready, "--timeout", "60")
    assert (house.root / "two.txt").exists() and not (house.root / "one.txt").exists()
    assert outcome(house, first) == "taken back" and needs(house) == []
    assert "Taken back from main" in house.run("merge", "detail", first).stdout
    assert "Taken back from main" in house.run("merge", "list").stdout
    noted = house.json("audit")
    assert [row for row in noted if row["action"] == "rewind.accept"]


@pytest.mark.parametrize("then", ["true", "echo more > more.txt && git add -A && git commit -qm more"])
def test_a_workers_commits_land_although_its_branch_was_deleted_while_it_ran(house: Coordinated, then: str) -> None:
    gate = house.root.parent / "gate"
    work = f"{WRITES.format('kept')} && echo late > late.txt && while [ ! -e {gate} ]; do sleep 0.05; done && {then}"
    task = house.submit("kept", work)
    (row,) = eventually(
        lambda: [worktree for worktree in house.worktrees_in_use() if (Path(worktree["path"]) / "late.txt").exists()]
    )
    git(house.root, "update-ref", "-d", f"refs/heads/{row['branch']}")
    gate.touch()
    house.run("wait", task, "--timeout", "60")
    assert outcome(house, task) == "landed"
    files = [house.root / f"{name}.txt" for name in ("kept", "late")]
    assert all(file.exists() for file in files) and (house.root / "more.txt").exists() == (then != "true")
    assert "kept" in git(house.root, "log", "--format=%s", "main").splitlines()


def test_a_failed_workers_commits_are_saved_although_its_branch_was_deleted(house: Coordinated) -> None:
    gate = house.root.parent / "gate"
    work = f"{WRITES.format('kept')} && touch done.txt && while [ ! -e {gate} ]; do sleep 0.05; done; exit 3"
    task = house.submit("kept", work, "--retries", "0")
    (row,) = eventually(
        lambda: [worktree for worktree in house.worktrees_in_use() if (Path(worktree["path"]) / "done.txt").exists()]
    )
    git(house.root, "update-ref", "-d", f"refs/heads/{row['branch']}")
    gate.touch()
    house.run("wait", task, "--timeout", "60", check=False)
    saved = eventually(lambda: house.json("worktree", "recover"))
    log = git(house.root, "log", "--format=%s", saved[0]["ref"])
    assert "kept" in log.splitlines() and not needs(house, "kept_worktree")


def test_a_target_that_was_renamed_keeps_tasks_waiting_with_the_reason(house: Coordinated) -> None:
    house.configure("landing: {target: main}\n")
    landed(house, "one")
    git(house.root, "branch", "-m", "main", "trunk")
    default = house.submit("two", WRITES.format("two"))
    named = house.submit("three", WRITES.format("three"), "--target", "main")

    def says_why(task: str) -> Any:
        shown = house.run("task", "detail", task).stdout
        return "no branch 'main' any more" in shown and shown

    for task in (default, named):
        reason = eventually(partial(says_why, task))
        assert "pending" in reason and "It is tried again" in reason
    assert needs(house) == []
    typo = house.run("task", "submit", "--title", "x", "--command", "true", "--target", "mian", check=False)
    assert typo.returncode == 2 and "There is no branch 'mian'" in typo.stderr
    git(house.root, "branch", "-m", "trunk", "main")
    house.run("wait", default, named, "--timeout", "60")
    assert outcome(house, default) == outcome(house, named) == "landed"


def test_a_commit_that_a_worker_put_on_the_target_past_the_queue_is_named_as_that(house: Coordinated) -> None:
    landed(house, "one")
    git(house.root, "switch", "-q", "--detach")
    gate = house.root.parent / "gate"
    pushes = f"{WRITES.format('sly')} && git push -q . HEAD:main && while [ ! -e {gate} ]; do sleep 0.05; done"
    task = house.submit("sly one", pushes)
    bypasses = eventually(lambda: [row for row in house.json("status")["recent"] if row["kind"] == "target.bypassed"])
    gate.touch()
    assert bypasses[0]["task_id"] == task and "past the queue: nothing verified that" in bypasses[0]["data"]["reason"]
    assert "sly one" in bypasses[0]["data"]["reason"] and bypasses[0]["data"]["commits"] == [
        git(house.root, "rev-parse", "main")
    ]
    house.run("wait", task, "--timeout", "60")
    # Whether something verified it by then: the target's new tip is verified like every commit that comes past the queue.
    assert "from the worktree of its task, past the queue" in house.run("merge", "detail", task).stdout
    assert "sly one" in (house.root / ".corral" / "logs" / "corral.log").read_text()
    commit(house.root, {"mine.txt": "1\n"})
    git(house.root, "branch", "-f", "main", "HEAD")
    house.carry_out("two", "true")
    kinds = [row["kind"] for row in house.json("status")["recent"]]
    assert kinds.count("target.bypassed") <= 1, "a person's own commit is not named"
