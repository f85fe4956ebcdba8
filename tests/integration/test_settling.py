"""What failed stays open until somebody settles it: tries again, lands it another way, or dismisses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.work.tasks.store import outcomes
from tests.conftest import git
from tests.integration.landing_world import World, why
from tests.support.coordinated import Coordinated


def test_what_failed_is_open_whenever_it_died_until_somebody_dismisses_it(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(verify=("test ! -e ba[d]",), config="landing: {verify: ['test ! -e ba[d]'], reruns: 0}")
    bad, dead = house.submit("Bad", "touch bad"), house.submit("Dead", "exit 3")
    nothing = house.submit("Nothing", "true")
    waited = house.json("wait", bad, dead, nothing, "--timeout", "60", check=False)
    assert {row["task_id"]: row["outcome"] for row in waited["tasks"]} == {
        bad: "red",
        dead: "dead",
        nothing: "nothing to land",
    }
    later = house.run("wait", "--all", "--json", check=False)
    assert later.returncode == 1 and bad in later.stdout and dead in later.stdout, "as if asked before they died"
    assert nothing not in later.stdout and "test ! -e ba[d]" in later.stdout, "and it says why"
    outcomes = {row["task_id"]: row["outcome"] for row in house.json("task", "list")}
    assert outcomes == {bad: "red", dead: "dead", nothing: "nothing to land"}
    shown = house.run("task", "list").stdout
    assert "red" in shown and "completed" not in shown
    status = house.json("status")
    assert status["open"] == {"dead": 1, "red": 1}
    assert [need["kind"] for need in status["needs_you"]] == ["failed_task", "returned_merge"]
    assert f"corral merge dismiss {dead[:8]}" in status["needs_you"][0]["remedy"]
    assert "1 dead, 1 red" in house.run("status").stdout
    merge = house.json("task", "detail", bad)["merge"]["merge_id"]
    assert house.json("merge", "dismiss", merge[:8]) == {"merge_id": merge, "task_id": bad, "outcome": "dismissed"}
    assert house.json("merge", "dismiss", bad)["merge_id"] == merge, "said again, by the task"
    assert house.json("merge", "dismiss", dead)["task_id"] == dead
    for wrong, code in ((nothing, 4), ("0" * 36, 3)):
        assert house.run("merge", "dismiss", wrong, check=False).returncode == code
    status = house.json("status")
    assert (status["open"], status["needs_you"]) == ({}, [])
    assert house.run("wait", "--all").returncode == 0
    assert {row["outcome"] for row in house.json("task", "list")} == {"dismissed", "nothing to land"}
    house.run("task", "retry", dead)
    assert house.run("wait", dead, "--timeout", "60", check=False).returncode == 1
    assert house.json("status")["open"] == {"dead": 1}, "trying again takes the dismissal back"


def test_a_conflict_whose_commits_reach_the_target_another_way_has_landed(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(repo, landing=Landing(verify=[]))
    world.branch("mine", {"src/a.py": "mine\n"})
    world.branch("theirs", {"src/a.py": "theirs\n"})
    other, mine = world.submit("theirs"), world.submit("mine")
    world.run()
    assert world.settled == [(other, "landed"), (mine, "conflict")]
    due = world.queue.step(world.now())
    assert due is not None, "a person's merge tells nobody"
    git(repo, "merge", "-q", "-X", "ours", "-m", "by hand", "mine")
    world.skip(61)
    write, seen = world.db.write, set[str]()

    def watched(change: Callable[..., object], /, *args: object, **more: object) -> object:
        result = write(change, *args, **more)
        seen.add(world.merge(mine)["state"])
        return result

    monkeypatch.setattr(world.db, "write", watched)
    world.queue.step(world.now())
    assert seen <= {"conflict", "landed"}, "at no moment it counts as one that goes on"
    assert world.settled[-1] == (mine, "landed") and "had it already" in why(world.merge(mine))
    assert world.db.read(outcomes.open_requests) == []
    world.close()


def test_a_returned_request_whose_commits_are_gone_keeps_nobody_from_landing(repo: Path) -> None:
    """Its person deleted the branch, and git has collected what was on it."""
    world = World(repo, landing=Landing(verify=["test ! -e bad.txt"], reruns=0))
    world.branch("bad", {"bad.txt": "x\n"})
    assert world.land("bad")["state"] == "failed"
    git(repo, "branch", "-D", "bad")
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "-q", "--prune=now")
    world.branch("good", {"good.txt": "x\n"})
    assert world.land("good")["state"] == "landed"
    assert [row["branch"] for row in world.db.read(outcomes.open_requests)] == ["bad"], "it is still shown"
    world.close()


def test_a_conflict_is_settled_by_a_newer_request_of_its_branch(repo: Path) -> None:
    world = World(repo, landing=Landing(verify=[]))
    world.branch("mine", {"src/a.py": "mine\n"})
    world.offer("theirs", {"src/a.py": "theirs\n"})
    mine = world.submit("mine")
    world.run()
    git(repo, "branch", "-q", "-f", "mine", world.branch("rebased", {"src/a.py": "both\n"}, "main"))
    assert world.land("mine")["state"] == "landed"
    assert world.merge(mine)["state"] == "conflict"
    assert world.db.read(outcomes.open_requests) == [], "the old one is history"
    world.close()
