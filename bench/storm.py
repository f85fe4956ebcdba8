"""A thousand kills over a full queue. Only what is asked for by name: it takes a quarter of an hour, and measures no speed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from tests.faults.queue_storm import QueueStorm
from tests.faults.storm import CONFIG, seed_of_this_run

from bench.measure import Measure
from bench.world import World

DAEMONS_PER_KILL = 0.1


def measure(world: World) -> Iterator[Measure]:
    """Kill daemons and runners, then hold everything that was acknowledged against the world; stops at what is wrong."""
    seed, kills, tasks = seed_of_this_run(), world.sizes.kills, world.sizes.tasks_of_storm
    print(f"STORM_SEED={seed}", file=sys.stderr, flush=True)
    house = world.coordinated(world.sizes.files_of_tasks, f"{CONFIG}landing: {{verify: ['test -d d000']}}\n")
    house.trust()
    storm = QueueStorm(house, seed, world.folder)
    daemons = round(kills * DAEMONS_PER_KILL)
    began = time.perf_counter()
    storm.rage(daemons=daemons, runners=kills - daemons, tasks=tasks)
    storm.check()
    note = f"{len(storm.tasks)} tasks, {storm.samples} comparisons, {time.perf_counter() - began:.0f} s, seed {seed}"
    killed = f"{storm.kills['daemon']} daemons and {storm.kills['runner']} runners killed"
    yield Measure(f"tasks lost, doubled or stuck, {killed}", 0, "", limit=0, note=note)
