"""What is told of the landing queue while it works: each request's place, slot and expected time; lanes, graph and figures."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.instants import parse
from corral.landing import standing
from corral.work.merges.store import runs
from corral.work.merges.wire import Standing
from tests.conftest import commit, commit_all, git
from tests.integration.landing_world import World
from tests.support.browsing import visitor
from tests.support.coordinated import Coordinated, eventually


@pytest.mark.req("FR-MONITOR-002", "FR-MONITOR-003")
def test_the_queue_tells_each_requests_place_slot_and_time_on_every_face(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    gate = tmp_path / "closed"
    house = coordinate(verify=(f"while test -e {gate}; do sleep 0.05; done",))
    house.configure("landing: {slots: 2}\n")
    commit_all(house.root, "corral")
    for name in ("first", "second", "third", "fourth"):
        git(house.root, "switch", "-q", "-c", name, "main")
        commit(house.root, {f"{name}.txt": "x\n"})
    git(house.root, "switch", "-q", "main")
    house.run("merge", "submit", "first", "--title", "The first")
    house.run("wait", "--all", "--timeout", "60")
    (first,) = house.json("merge", "list")
    assert first["outcome"] == "landed" and first["standing"] is None
    gate.touch()
    for name in ("second", "third", "fourth"):
        house.run("merge", "submit", name, "--title", f"The {name}")

    def standings() -> list[dict[str, object]]:
        rows = house.ask("GET", "/merges", query={"state": ["queued", "verifying", "held"]})
        return [row["standing"] for row in rows] if {row["standing"]["slot"] for row in rows} >= {1, 2} else []

    shown = eventually(standings)
    assert [place["position"] for place in shown] == [1, 2, 3]
    assert all("in slot" in str(place["waits_for"]) for place in shown if place["slot"] is not None)
    assert all(isinstance(place["expected_s"], float) and place["waits_since"] for place in shown)
    listed = house.run("merge", "list", "--status", "queued", "--status", "verifying").stdout
    assert "PLACE" in listed and "LANDS IN" in listed
    status = house.run("status").stdout  # the first one took no time
    assert "lands in about" in status or "takes longer than usual" in status

    (graph,) = house.json("merge", "graph")
    second, third = graph["candidates"][:2]
    assert (graph["tip"], second["on_sha"], third["on_sha"]) == (
        git(house.root, "rev-parse", "main"), git(house.root, "rev-parse", "main"), second["candidate_sha"],
    )  # fmt: skip
    drawn = house.run("merge", "graph").stdout.splitlines()
    assert drawn[0].startswith("main  ") and drawn[1].startswith(
        f"*   1  {second['candidate_sha'][:8]}  The second: running"
    )

    browser = visitor(house)
    queue = browser.get("/queue").text
    assert "Slot 1" in queue and "Slot 2" in queue and queue.index("The second") < queue.index("The third")
    gate.unlink()
    house.run("wait", "--all", "--timeout", "60")
    queue, timeline = browser.get("/queue").text, browser.get("/timeline").text
    assert "Nothing is being verified." in queue and "Verifications for each landing" in queue
    assert "slot 1" in timeline and "slot 2" in timeline and "Verification of The second" in timeline
    counted = house.json("metrics")
    assert counted["landings"] == 4 == sum(hour["landed"] for hour in counted["landing_hours"])
    assert 0.5 <= counted["runs_per_landing"] <= 2
    assert [(change["target"], change["colour"]) for change in counted["colours"]] == [("main", "green")]


def test_what_is_verified_together_lands_together_and_a_red_one_is_never_told_as_verified(
    repo: Path, tmp_path: Path
) -> None:
    world, go = World(repo), tmp_path / "go"
    hold = f"until [ -e {go} ]; do sleep 0.05; done"
    go.touch()
    world.landing = Landing(verify=[f"! test -e bad.txt && {hold}"], reruns=0, control_max_age_s=0)
    world.branch("first", {"first.txt": "x\n"})
    world.land("first")
    go.unlink()
    world.db.write(lambda conn: runs.set_batch(conn, "main", 4))
    for name in ("one", "two", "three"):
        world.branch(name, {f"{name}.txt": "x\n"})
    ids = [world.submit(name) for name in ("one", "two", "three")]

    def shown(is_meant: Callable[[Standing], object]) -> list[Standing] | None:
        world.queue.step(world.now())
        places = [how for _row, how in world.db.read(lambda conn: standing.of_open(conn, 9, 0, world.now()))]
        return places if all(map(is_meant, places)) else None

    eventually(lambda: shown(lambda how: how["slot"]))
    world.db.write(lambda conn: runs.set_batch(conn, "main", 1))  # as after a suspect; a stack counts once all the same
    later = world.offer("later", {"later.txt": "x\n"})
    *together, behind = [how for _row, how in world.db.read(lambda conn: standing.of_open(conn, 9, 0, world.now()))]
    assert len({place["expected_s"] for place in together}) == 1 and together[0]["expected_s"] is not None
    (usual_s,) = world.db.read(lambda conn: runs.green_durations(conn, "main", 9))
    (began,) = {run["started_at"] for run in world.db.read(runs.running)}
    late = parse(began) + timedelta(seconds=usual_s + 60)
    *overdue, next_one = [how for _row, how in world.db.read(lambda conn: standing.of_open(conn, 9, 0, late))]
    assert {place["expected_s"] for place in overdue} == {0.0}
    assert next_one["expected_s"] == round(usual_s, 1), "its own verification is still to come"
    assert behind["expected_s"] is not None and behind["expected_s"] >= next_one["expected_s"]
    go.touch()
    world.run()
    go.unlink()
    bad = world.offer("bad", {"bad.txt": "x\n"})
    (how,) = eventually(lambda: shown(lambda how: "was red; " in how["waits_for"]))
    assert "main without it is verified before it is blamed" in how["waits_for"] and how["expected_s"] is None
    go.touch()
    world.run()
    assert world.merge(bad)["state"] == "failed" and {world.merge(merge_id)["state"] for merge_id in (*ids, later)} == {
        "landed"
    }
    world.close()
