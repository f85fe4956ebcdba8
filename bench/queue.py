"""Work that sessions take from the queue: claim and complete over the socket, and submission next to a lock."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.coordinated import Coordinated

from bench.load import Link, Load, drive, http
from bench.measure import Measure, p50, p95
from bench.operations import QUIET
from bench.world import World
from corral.config.paths import find_project, socket_path

CLIENTS = (1, 10)
P95_MS = {1: 5.0, 10: 25.0}
"""Of a claim together with its completion."""
OF_A_LOCK = 2.0
"""A submission next to a lock, with as many clients."""


async def _take(socket: Path, clients: int, each: int) -> Load:
    """Every client claims a task and completes it, again and again; a latency is that of the two together."""
    loop, load = asyncio.get_running_loop(), Load()
    links = [(await loop.create_unix_connection(Link, str(socket)))[1] for _ in range(clients)]

    async def one(link: Link, who: str) -> None:
        claim = http("POST", "/tasks/claim", {"session_id": who})
        await link.ask(http("POST", f"/sessions/{who}/heartbeat"))
        for _ in range(each):
            began = time.perf_counter()
            await link.ask(claim)
            task_id = json.loads(link.body)["task_id"]
            body = {"success": True, "session_id": who}
            status = await link.ask(http("POST", f"/tasks/{task_id}/complete", body))
            load.latencies.append((time.perf_counter() - began) * 1000)
            if status != 200:
                raise RuntimeError(f"the completion was answered {status}")

    began = time.perf_counter()
    try:
        await asyncio.gather(*(one(link, f"worker-{number}") for number, link in enumerate(links)))
    finally:
        for link in links:
            link.close()
    load.seconds = time.perf_counter() - began
    return load


def _fill(house: Coordinated, rows: int) -> None:
    client = house.client()
    for first in range(0, rows, 1000):
        batch = [{"title": f"task {number}"} for number in range(first, min(first + 1000, rows))]
        client.request("POST", "/tasks/batch", {"tasks": batch})
    client.close()


def measure(world: World) -> Iterator[Measure]:
    """Measure at a short queue and at a long one; the budgets are for the long one."""
    sizes = world.sizes
    house = world.coordinated(20, QUIET)
    house.run("daemon", "start")
    socket = socket_path(find_project(house.root))
    each = {clients: max(1, sizes.requests // 5 // clients) for clients in CLIENTS}
    taken = sum(clients * number for clients, number in each.items())
    few: dict[int, Load] = {}
    for rows in (sizes.few_rows, sizes.many_rows):
        _fill(house, rows + taken)
        for clients in CLIENTS:
            load = asyncio.run(_take(socket, clients, each[clients]))
            if rows == sizes.few_rows:
                few[clients] = load
                continue
            note = f"p50 {p50(load.latencies):.1f}; at {sizes.few_rows} tasks p95 {p95(few[clients].latencies):.1f}"
            yield Measure(
                f"claim and complete, {clients} client{'s'[: clients > 1]}, {sizes.many_rows} tasks, p95",
                p95(load.latencies),
                "ms",
                limit=P95_MS[clients],
                note=note,
            )
    for clients in CLIENTS:
        number = max(1, sizes.requests // 5 // clients)
        locks = [
            [http("POST", "/locks/acquire", {"session_id": f"w{c}", "paths": [f"s/{c}/{n}.py"]}) for n in range(number)]
            for c in range(clients)
        ]
        tasks = [[http("POST", "/tasks", {"title": f"{c}.{n}"}) for n in range(number)] for c in range(clients)]
        floor, load = drive(socket, locks), drive(socket, tasks)
        yield Measure(
            f"submit, {clients} client{'s'[: clients > 1]}, p50 next to a lock",
            p50(load.latencies),
            "ms",
            floor=p50(floor.latencies),
            ratio=OF_A_LOCK,
        )
