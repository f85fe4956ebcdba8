"""What landed stays landed, or is told: rewound targets, at the surface of the command line and the queue."""

from __future__ import annotations

from typing import Any

from tests.conftest import git
from tests.coordinated import Coordinated, eventually

WRITES = "echo {0} > {0}.txt && git add -A && git commit -qm {0}"


def landed(house: Coordinated, name: str, *args: str) -> str:
    """A task whose commit has landed."""
    task = house.submit(name, WRITES.format(name), *args)
    house.run("wait", task, "--timeout", "60")
    return task


def needs(house: Coordinated, kind: str = "rewound_target") -> list[dict[str, Any]]:
    return [need for need in house.json("status")["needs_you"] if need["kind"] == kind]


def outcome(house: Coordinated, task: str) -> str:
    return str(house.ask("GET", f"/wait?task={task}&timeout_s=0")["tasks"][0]["outcome"])


def typed(remedy: str, beginning: str) -> list[str]:
    """The command in a remedy, as a person types it."""
    (found,) = [part for part in remedy.replace(". Or", ":").split(": ") if part.startswith(beginning)]
    return found.split()


def lost_refs(house: Coordinated, below: str = "lost") -> list[str]:
    return git(house.root, "for-each-ref", "--format=%(objectname)", f"refs/corral/landed/{below}/").split()


def test_a_reset_target_is_told_its_commits_are_kept_and_one_command_brings_them_back(house: Coordinated) -> None:
    before = git(house.root, "rev-parse", "main")
    first = landed(house, "one")
    second = landed(house, "two")
    tip = git(house.root, "rev-parse", "main")
    assert git(house.root, "rev-parse", "refs/corral/landed/tips/main") == tip
    git(house.root, "reset", "--hard", before)
    (need,) = eventually(lambda: needs(house), deadline_s=10)
    assert "'one', 'two'" in need["what"] and before[:12] in need["what"] and need["since"]
    assert lost_refs(house) == [tip]
    assert (outcome(house, first), outcome(house, second)) == ("missing", "missing")
    assert "Missing from main" in house.run("task", "detail", first).stdout
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
