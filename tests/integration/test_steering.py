"""What a person orders the queue is obeyed and stays in force: frozen targets, skipped and bypassed requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.errors import Conflict, NotFound
from corral.landing import land, steering
from corral.work.merges.store import freezes, intents, runs
from corral.work.merges.wire import detail
from tests.conftest import git
from tests.integration.landing_world import World, in_a_process, listed, why
from tests.integration.test_direct_commits import why_red

GREEN = Landing(verify=["echo '1 passed in 0.01s'"], reruns=0)


def _queued(world: World, *names: str) -> dict[str, str]:
    for name in names:
        world.branch(name, {f"{name}.txt": "x\n"})
    return {name: world.submit(name) for name in names}


def _freeze(world: World) -> list[str]:
    return world.db.write(lambda conn: steering.freeze(conn, "main", "A release.", "Ann", world.now()))[1]


def _thaw(world: World) -> tuple[bool, bool]:
    return world.db.write(lambda conn: steering.thaw(conn, "main", world.now()))


def _bypass(world: World, merge_id: str) -> None:
    head = world.merge(merge_id)["head_sha"]
    world.db.write(lambda conn: steering.bypass(conn, world.merge(merge_id), head, "It is urgent.", "Ann", world.now()))


def test_on_a_frozen_target_nothing_lands_until_it_is_thawed_and_all_is_verified_by_then(world: World) -> None:
    world.landing, world.slots = GREEN, 2
    tip = world.tip()
    ids = _queued(world, "a", "b")
    assert _freeze(world) == []
    world.spend(60)
    assert world.tip() == tip and {world.merge(merge_id)["state"] for merge_id in ids.values()} == {"queued"}
    assert world.receipt(ids["b"])["status"] == "passed" and world.db.read(runs.running) == []
    assert all("main is frozen" in row["reason"] and "by Ann: A release." in row["reason"] for row in listed(world.db))
    ran = list((world.project.logs_dir / "merges").rglob("*.log"))
    again = world.new_queue()
    again.recover(world.now())
    again.step(world.now())
    assert world.tip() == tip, "it outlives the daemon"
    world.queue = again
    assert _thaw(world) == (True, False)
    world.run()
    assert {world.merge(merge_id)["state"] for merge_id in ids.values()} == {"landed"}
    assert list((world.project.logs_dir / "merges").rglob("*.log")) == ran, "nothing is verified twice"
    assert [kind for kind in world.events() if kind.startswith("target.")] == ["target.frozen", "target.thawed"]
    with pytest.raises(NotFound, match="main is not frozen") as refused:
        _thaw(world)
    assert "thawed already" in refused.value.cause


def test_a_freeze_meets_a_landing_that_was_planned_and_one_that_was_begun(repo: Path) -> None:
    world = World(repo, landing=GREEN)
    tip, (merge_id,) = world.tip(), _queued(world, "a").values()
    world.close()
    verify = GREEN.verify[0]
    assert in_a_process(repo, verify, CORRAL_CRASH_AT="landing.intent_stored").wait(60) == -9
    again = World(repo, landing=GREEN)
    assert _freeze(again) == [merge_id], "the person is told"
    again.queue.recover(again.now())
    again.spend(30)
    assert again.tip() == tip and again.db.read(intents.listing)
    _thaw(again)
    again.run()
    assert again.merge(merge_id)["state"] == "landed" and again.tip() != tip
    again.close()


def test_a_landing_does_not_begin_once_the_target_is_frozen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.landing = GREEN
    tip, (merge_id,) = world.tip(), _queued(world, "a").values()
    monkeypatch.setattr(land, "crash_point", lambda point: _freeze(world) if point == "landing.before_intent" else None)
    world.run()
    assert world.db.read(lambda conn: freezes.is_frozen(conn, "main"))
    assert world.tip() == tip and world.merge(merge_id)["receipt_id"] and world.db.read(intents.listing) == []


def test_a_skipped_request_goes_behind_all_that_wait_now_and_before_those_that_come_later(world: World) -> None:
    first = _queued(world, "a")["a"]
    with pytest.raises(Conflict, match="Nothing else waits"):
        world.db.write(lambda conn: steering.skip(conn, world.merge(first), world.now()))
    low = world.offer("low", {"low.txt": "x\n"}, priority=1)
    world.skip(1)
    row = world.db.write(lambda conn: steering.skip(conn, world.merge(first), world.now()))
    assert row["priority"] == 1
    world.skip(1)
    later = world.offer("later", {"later.txt": "x\n"}, priority=1)
    assert [line["merge_id"] for line in listed(world.db)] == [first, low, later], (
        "a list shows them as they were submitted"
    )
    world.run()
    order = git(world.root, "log", "--first-parent", "--reverse", "--format=%H", "main").split()
    assert [world.merge(merge_id)["landed_sha"] for merge_id in (low, first, later)] == order[-3:]
    assert world.events().count("merge.skipped") == 1
    with pytest.raises(Conflict, match="is landed and cannot be skipped"):
        world.db.write(lambda conn: steering.skip(conn, world.merge(first), world.now()))


def test_a_bypassed_request_lands_alone_its_receipt_says_so_and_its_target_is_verified_after(
    world: World, tmp_path: Path
) -> None:
    gate = tmp_path / "go"
    world.landing = Landing(verify=[f"while [ ! -e {gate} ]; do sleep 0.05; done; echo '1 passed in 0.01s'"], reruns=0)
    ids = _queued(world, "a", "b")
    world.queue.step(world.now())
    tip = world.tip()
    with pytest.raises(Conflict, match="another head"):
        world.db.write(lambda conn: steering.bypass(conn, world.merge(ids["b"]), tip, "x", "Ann", world.now()))
    _bypass(world, ids["b"])
    world.until(ids["b"], "landed")
    row = world.merge(ids["b"])
    assert git(world.root, "diff", "--name-only", tip, "main").split() == ["b.txt"], "nobody else's work lands with it"
    shown = detail(row, world.receipt(ids["b"]))
    assert shown["receipt"]["status"] == "bypassed" and shown["receipt"]["commands"] == []
    assert shown["receipt"]["reason"] == "Ann let it land without a verification: It is urgent."
    assert world.events().count("merge.bypassed") == 1
    gate.touch()
    world.run()
    assert world.merge(ids["a"])["state"] == "landed" and world.receipt(ids["a"])["status"] == "passed"


def test_a_bypass_passes_a_paused_target_and_not_a_frozen_one(world: World) -> None:
    world.landing = Landing(verify=["kill -9 $$"], reruns=0)
    ids = _queued(world, "a", "b")
    world.spend(20)
    assert world.pause() is not None
    tip = world.tip()
    _freeze(world)
    _bypass(world, ids["b"])
    world.queue.step(world.now())
    assert world.tip() == tip
    _thaw(world)
    world.until(ids["b"], "landed")
    assert world.pause() is not None and why(world.merge(ids["a"])), "a bypass is no verdict"


@pytest.mark.faults
@pytest.mark.parametrize("point", ["landing.before_intent", "landing.target_moved", "landing.outcome_stored"])
def test_a_bypass_that_was_killed_is_finished_and_its_tip_looked_at(repo: Path, point: str) -> None:
    red = "! ls | grep -q ^a.txt && echo '1 passed in 0.01s'"
    world = World(repo, landing=Landing(verify=[red], reruns=0))
    (merge_id,) = _queued(world, "a").values()
    _bypass(world, merge_id)
    world.close()
    assert in_a_process(repo, red, CORRAL_CRASH_AT=point).wait(60) == -9
    again = World(repo, landing=Landing(verify=[red], reruns=0))
    again.queue.recover(again.now())
    again.until(merge_id, "landed")
    assert again.receipt(merge_id)["status"] == "bypassed"
    again.step_until(lambda: why_red(again))
    assert "Ann let it land without a verification" in why_red(again), "and whose it is"
    again.close()
