"""The view with many tasks: what every face asks for first."""

from __future__ import annotations

from collections.abc import Iterator

from bench.measure import Measure, in_turns, p50, spread
from bench.operations import QUIET
from bench.world import World


def measure(world: World) -> Iterator[Measure]:
    """The view with few and with many tasks, each beside a request that asks for nothing."""
    sizes = world.sizes
    house = world.coordinated(20, QUIET)
    house.run("daemon", "start")
    client = house.client()
    made, small = 0, 0.0
    for wanted in (sizes.few_rows, sizes.many_rows):
        while made < wanted:
            number = min(1000, wanted - made)
            tasks = [{"title": f"task {index}", "command": "true"} for index in range(number)]
            client.request("POST", "/tasks/batch", {"tasks": tasks}, timeout_s=120)
            made += number
        client.request("GET", "/status")  # its statements are compiled once
        views, health = in_turns(
            2 * sizes.turns,
            lambda: client.request("GET", "/status"),
            lambda: client.request("GET", "/health"),
        )
        small = small or p50(views)
    note = f"{spread(views)}; with {sizes.few_rows} tasks {small:.2f}; floor: health"
    yield Measure(f"view, {sizes.many_rows:,} tasks", p50(views), "ms", p50(health), 20, note=note)
    client.close()
