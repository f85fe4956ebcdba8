"""Several agents at one task, with real workers and landings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.coordinated import Coordinated, eventually


@pytest.mark.req("FR-SWARM-003", "FR-SWARM-001")
def test_the_first_to_succeed_lands_and_the_others_are_ended(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="supervisor: {stop_grace_s: 0.5}\n")
    race = "mkdir $CORRAL_PROJECT/first && echo won > won.txt || sleep 600"
    task = house.submit("race", race, "--agents", "3", "--combine", "first")
    done = house.json("wait", task, "--timeout", "60")
    assert done["tasks"][0]["outcome"] == "landed"
    assert (house.root / "won.txt").read_text() == "won\n"
    detail = house.json("task", "detail", task)
    assert detail["combine"] == "first" and detail["agents"] == 3 and len(detail["followers"]) == 3

    def states() -> list[str]:
        return sorted(house.json("task", "detail", follower)["status"] for follower in detail["followers"])

    eventually(lambda: states() == ["cancelled", "cancelled", "completed"])
    assert len(house.json("merge", "list")) == 1


@pytest.mark.req("FR-SWARM-003")
def test_members_that_did_not_agree_land_nothing_and_say_so(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="tasks: {max_retries: 0}\n")
    task = house.carry_out(
        "guess", "echo $CORRAL_TASK_ID | tee guess.txt", "--agents", "3", "--combine", "vote", check=False
    )
    detail = house.json("task", "detail", task)
    assert (detail["status"], detail["error_code"]) == ("failed", "no_majority")
    outputs = [part["result"]["output"] for part in detail["result"]["contributions"]]
    assert outputs == detail["followers"], "each contribution is kept"
    assert house.json("merge", "list") == [] and not (house.root / "guess.txt").exists()


@pytest.mark.req("FR-SWARM-003", "FR-SWARM-004")
def test_a_killed_daemon_loses_no_contribution(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="tasks: {retry_initial_s: 0.1, retry_max_s: 0.2}\n")
    waits = "echo part | tee part-$CORRAL_TASK_ID.txt; while ! test -e $CORRAL_PROJECT/go; do sleep 0.1; done"
    task = house.submit("parts", waits, "--agents", "2", "--combine", "concat")
    after = house.submit("after", "cat part-*.txt", "--wait-for", task)
    eventually(lambda: len(house.json("swarm", "status")["agents"]) == 2)
    house.kill_daemon()
    (house.root / "go").touch()
    house.run("wait", task, after, "--timeout", "60")
    assert house.json("task", "detail", task)["result"]["output"] == "part\n\npart"
    assert house.json("task", "detail", after)["result"]["output"] == "part\npart", "it began when both had landed"
