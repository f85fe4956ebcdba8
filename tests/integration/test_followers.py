"""Agents that lead others: within the limits, at most three levels deep, and not without their leader."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from corral.core.runners import traits
from tests.support.coordinated import Coordinated, eventually

WAIT = "while test $(ls $CORRAL_PROJECT/done-$0* | wc -l) -lt 2; do sleep 0.1; done"
"""A leader that waits until two marks of its followers are there."""


@pytest.mark.req("FR-SWARM-006")
def test_a_leader_has_followers_that_end_with_it(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="supervisor: {stop_grace_s: 0.5, max_agents: 1}\n")
    leader = house.submit("leader", "while ! test -e $CORRAL_PROJECT/go; do sleep 0.1; done", "--claims", "src/**")
    eventually(lambda: house.ask("GET", f"/tasks/{leader}/detail")["started_at"])
    follower = house.submit("follower", "echo follows; sleep 600", "--parent", leader[:8], "--claims", "src/a.py")
    queued = house.submit("another", "sleep 600", "--parent", leader, "--wait-for", follower)
    shown = eventually(
        lambda: [agent for agent in house.json("swarm", "status")["agents"] if agent["task_id"] == follower]
    )
    assert shown[0]["parent"] == leader
    assert house.json("task", "detail", leader)["followers"] == [follower, queued]
    assert f"leads     {follower[:8]}, {queued[:8]}" in house.run("task", "detail", leader).stdout
    assert f"leader    {leader[:8]}" in house.run("task", "detail", follower).stdout
    assert house.json("status")["needs_you"] == []
    assert "running   1 of 1 agents, 1 that lead them: 2 command" in house.run("status").stdout
    (house.root / "go").touch()

    def cancelled(task: str) -> Any:
        detail = house.json("task", "detail", task)
        return detail["status"] == "cancelled" and detail

    for task in (follower, queued):
        ended = eventually(partial(cancelled, task))
        assert ended["error_message"] == f"Its leader, task {leader[:8]}, has ended."
    late = house.run("task", "submit", "--title", "late", "--command", "true", "--parent", leader, check=False)
    assert late.returncode == 4 and "it leads nobody any more" in late.stderr


@pytest.mark.req("FR-SWARM-006")
def test_leaders_that_wait_lend_their_places_to_their_followers_alone(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="supervisor: {stop_grace_s: 0.5, max_agents: 2}\n")
    both = WAIT.replace("$0", "").replace(
        "2", "4"
    )  # none ends, and gives its place back, before all followers have begun
    leaders = [house.submit(f"leader {name}", both) for name in "ab"]
    for leader in leaders:
        eventually(partial(lambda task: house.ask("GET", f"/tasks/{task}/detail")["started_at"], leader))
    other = house.submit("another", "touch $CORRAL_PROJECT/other", "--priority", "10")
    for leader, name in zip(leaders, "ab", strict=True):
        for number in (1, 2):
            mark = "test -e $CORRAL_PROJECT/other && exit 1; touch $CORRAL_PROJECT"
            house.submit("follower", f"{mark}/done-{name}{number}", "--parent", leader)
    house.run("wait", *leaders, "--timeout", "60")
    house.run("wait", "--all", "--timeout", "60")
    assert (house.root / "other").exists() and house.json("task", "detail", other)["outcome"] == "nothing to land"


@pytest.mark.req("FR-SWARM-006")
def test_leaders_that_wait_keep_no_memory_for_what_they_might_use(coordinate: Callable[..., Coordinated]) -> None:
    two_and_a_half = round(2.5 * traits("command").first_mb)
    house = coordinate(config=f"supervisor: {{stop_grace_s: 0.5}}\nlimits: {{memory_mb: {two_and_a_half}}}\n")
    leaders = [house.submit(f"leader {name}", WAIT.replace("$0", name)) for name in "ab"]
    for leader in leaders:
        eventually(partial(lambda task: house.ask("GET", f"/tasks/{task}/detail")["started_at"], leader))
    for leader, name in zip(leaders, "ab", strict=True):
        house.submit("follower", f"touch $CORRAL_PROJECT/done-{name}1 $CORRAL_PROJECT/done-{name}2", "--parent", leader)
    house.run("wait", *leaders, "--timeout", "60")


@pytest.mark.req("FR-SWARM-006")
def test_a_worker_leads_by_the_number_in_its_environment_and_followers_that_ended_keep_what_they_did(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate()
    wait = "while ! test -e $CORRAL_PROJECT/go; do sleep 0.1; done"
    leader = house.submit("leader", f"echo $CORRAL_TASK_ID > $CORRAL_PROJECT/leader; {wait}")
    eventually(lambda: (house.root / "leader").exists() and (house.root / "leader").read_text().strip())
    assert (house.root / "leader").read_text().strip() == leader
    follower = house.carry_out("follower", "echo done > followed.txt", "--parent", leader)
    (house.root / "go").touch()
    house.run("wait", "--all", "--timeout", "60")
    assert (house.root / "followed.txt").read_text() == "done\n"
    assert house.json("task", "detail", follower)["outcome"] == "landed"


@pytest.mark.req("FR-SWARM-006")
def test_leaders_of_leaders_are_bounded(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}\n")
    chain = [house.submit("first", "true")]
    for level in (2, 3):
        chain.append(house.submit(f"level {level}", "true", "--parent", chain[-1]))
    deep = house.run("task", "submit", "--title", "x", "--command", "true", "--parent", chain[-1], check=False)
    assert deep.returncode == 2 and "would be 4 levels deep; 3 are allowed" in deep.stderr
    house.configure("supervisor: {max_agents: 0, max_depth: 4}\n")
    assert eventually(
        lambda: (
            house.run(
                "task", "submit", "--title", "x", "--command", "true", "--parent", chain[-1], check=False
            ).returncode
            == 0
        )
    )
    house.run("task", "cancel", chain[0])
    house.configure("supervisor: {max_agents: 1}\n")
    eventually(lambda: {task["status"] for task in house.json("task", "list")} == {"cancelled"})
