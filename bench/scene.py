"""Forty branches at once, with kills and a person at work. Only what is asked for by name: it takes minutes, and is a proof."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.faults import landing_scene
from tests.faults.landing_scene import LandingScene
from tests.faults.storm import seed_of_this_run

from bench.measure import Measure
from bench.world import World


def measure(world: World) -> Iterator[Measure]:
    """Play the scene, and hold what came of it against what must be true; stops at what is wrong."""
    seed, folder = seed_of_this_run(), world.folder / "scene"
    print(f"STORM_SEED={seed}", file=sys.stderr, flush=True)
    folder.mkdir()
    house = world.coordinated(20, landing_scene.config(folder))
    house.trust()
    scene = LandingScene(house, folder, seed)
    scene.play()
    scene.check()
    what = f"verification times for {landing_scene.BRANCHES} branches, {landing_scene.SLOTS} slots"
    yield Measure(what, scene.units, "", limit=scene.allowed_units, note=str(scene))
