"""Many requests at once: how much faster the ladder is than one run after the other, and what one landing costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import psutil
from tests.support.coordinated import Coordinated

from bench.measure import Measure
from bench.worktrees import branch
from bench.world import World

REQUESTS, SLOTS = 10, 4
OF_SERIAL = 3.2
WAITING, COST_MS = 16, 50


def measure(world: World) -> Iterator[Measure]:
    """Measure ten requests with a suite that leaves a core free, the same with a bad one in front, and landings without one."""
    serial = _land_all(world, "slots: 1, verify_each: true", bad=False)
    good, behind_bad = (_land_all(world, f"slots: {SLOTS}", bad=bad) for bad in (False, True))
    run_s, suite = serial / REQUESTS, f"a suite of {world.sizes.suite_s:g} s"
    yield Measure(
        f"{REQUESTS} requests, {suite}, {SLOTS} slots", REQUESTS / good, "/s", REQUESTS / serial, ratio=OF_SERIAL,
        note=f"{good:.1f} s; floor: one run after the other, {serial:.1f} s",
    )  # fmt: skip
    yield Measure(
        "delay of the others by a bad one in front", max(behind_bad - good, 0.0), "s", run_s, ratio=1.0,
        note=f"{behind_bad:.1f} s; floor: a run, with the landing after it",
    )  # fmt: skip
    yield _cost(world)


def _land_all(world: World, landing: str, *, bad: bool) -> float:
    """Seconds until all requests have landed but the bad one, which is the first to be submitted."""
    command = f"sleep {world.sizes.suite_s:g}; ! git grep -q ^bad"
    house = world.coordinated(REQUESTS, f"landing: {{{landing}, verify: ['{command}']}}\n")
    house.trust()
    house.run("daemon", "start")
    names = [
        branch(house.root, number, REQUESTS, "bad" if bad and number == 0 else "good") for number in range(REQUESTS)
    ]
    began = time.perf_counter()
    merge_ids = _submit(house, names)
    _wait(house, merge_ids[1:] if bad else merge_ids)
    taken = time.perf_counter() - began
    house.stop()
    return taken


def _submit(house: Coordinated, names: Sequence[str]) -> list[str]:
    client = house.client()
    merge_ids = [client.request("POST", "/merges", {"branch": name})["merge_id"] for name in names]
    client.close()
    return merge_ids


def _wait(house: Coordinated, merge_ids: Sequence[str]) -> None:
    client = house.client()
    answer = {"settled": False}
    while not answer["settled"]:
        answer = client.request("GET", "/wait", query={"merge": merge_ids}, timeout_s=120)
    client.close()
    if not answer["done"]:
        raise RuntimeError(f"not landed: {answer}")


def _cost(world: World) -> Measure:
    """The daemon's processor time for a landing among many that wait; that of its gits is told apart."""
    files = max(world.sizes.files_of_tasks, WAITING)
    house = world.coordinated(files)
    house.run("daemon", "start")
    house.run("pause")
    merge_ids = _submit(house, [branch(house.root, number, files) for number in range(WAITING)])
    pid = house.daemon_pid()
    assert pid is not None
    daemon = psutil.Process(pid)
    before = daemon.cpu_times()
    house.run("resume")
    _wait(house, merge_ids)
    after = daemon.cpu_times()
    own = after.user + after.system - before.user - before.system
    gits = after.children_user + after.children_system - before.children_user - before.children_system
    note = f"and {1000 * gits / WAITING:.0f} ms of its gits"
    return Measure(
        f"a landing among {WAITING}, {files:,} files: processor time",
        1000 * own / WAITING,
        "ms",
        limit=COST_MS,
        note=note,
    )
