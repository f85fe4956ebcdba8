"""The cost of a command above the interpreter that runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from bench.measure import Measure, in_turns, spread
from bench.world import World, python

ABOVE_MS = {"--version": 50, "--help": 100, "status": 50, "statusline": 50}
PROVES = {"status": "NFR-PERF-003", "--help": "NFR-PERF-007"}


def measure(world: World) -> Iterator[Measure]:
    """Measure ``corral --version``, ``--help``, ``status`` and ``statusline``, alternating with a bare interpreter."""
    house = world.coordinated(20)
    house.run("daemon", "start")

    def run(*args: str) -> None:
        subprocess.run(python(*args), cwd=house.root, check=True, stdin=subprocess.DEVNULL, capture_output=True)

    for name, budget in ABOVE_MS.items():
        bare, taken = in_turns(
            world.sizes.turns,
            lambda: run("-c", "pass"),
            lambda name=name: run("-m", "corral", name),  # type: ignore[misc]
        )
        yield Measure(
            f"corral {name}",
            min(taken),
            "ms",
            min(bare),
            budget,
            above=True,
            note=spread(taken),
            proves=PROVES.get(name, ""),
        )
