"""Locks and heartbeats over the socket, beside the bare reference daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.coordinated import Coordinated

from bench.load import Load, drive, http, line
from bench.measure import Measure, p50, p95
from bench.reference import reference
from bench.world import World
from corral.config.paths import find_project, socket_path

QUIET = "supervisor: {max_agents: 0}\ntasks: {max_queue: 1000000}\n"
CLIENTS = (1, 10, 50)
P95_MS = {1: 5.0, 10: 5.0, 50: 25.0}
"""The budgets of the design are for 10 and 50 clients; one client has that of ten."""
OPERATIONS = ("heartbeat", "acquire", "check", "release")

Make = Callable[[str, str, str], bytes]


def ours(operation: str, session: str, path: str) -> bytes:
    """An operation as a request to the daemon."""
    if operation == "heartbeat":
        return http("POST", f"/sessions/{session}/heartbeat")
    return http("POST", f"/locks/{operation}", {"session_id": session, "paths": [path]})


def bare(operation: str, session: str, path: str) -> bytes:
    """The same as a request to the reference daemon."""
    return line(op=operation, id=session, path=path)


def _plans(make: Make, operations: tuple[str, ...], clients: int, requests: int) -> list[list[bytes]]:
    each = max(1, requests // clients)
    return [
        [
            make(operations[n % len(operations)], f"client-{c}", f"src/c{c}/f{n // len(operations)}.py")
            for n in range(each)
        ]
        for c in range(clients)
    ]


def fill(house: Coordinated, rows: int) -> None:
    """Make as many locks of other sessions, a hundred each."""
    client = house.client()
    for first in range(0, rows, 100):
        paths = [f"other/d{number % 97}/f{number}.py" for number in range(first, min(first + 100, rows))]
        client.request("POST", "/locks/acquire", {"session_id": f"other-{first}", "paths": paths, "ttl_s": 86400})
    client.close()


def _sweep(path: Path, make: Make, requests: int) -> dict[tuple[str, int], Load]:
    drive(path, _plans(make, ("heartbeat",), max(CLIENTS), 4 * max(CLIENTS)))
    return {
        (operation, clients): drive(path, _plans(make, (operation,), clients, requests))
        for clients in CLIENTS
        for operation in OPERATIONS
    }


def _throughput(path: Path, make: Make, requests: int) -> Load:
    # Acquire, check and release the same path, and a heartbeat: what sessions at work ask for.
    plans = _plans(make, OPERATIONS, 10, 2 * requests)
    return max((drive(path, plans) for _ in range(3)), key=lambda load: load.rate)


def measure(world: World) -> Iterator[Measure]:
    """Latency of each operation, then operations a second."""
    sizes = world.sizes
    house = world.coordinated(20, QUIET)
    house.run("daemon", "start")
    socket = socket_path(find_project(house.root))
    fill(house, sizes.few_rows)
    few = _sweep(socket, ours, sizes.requests // 3)
    fill(house, sizes.many_rows)
    many = _sweep(socket, ours, sizes.requests)
    total = _throughput(socket, ours, sizes.requests)
    with reference(world.folder) as (bare_socket, _pid):
        drive(bare_socket, [[bare("acquire", "other", f"other/f{number}.py") for number in range(sizes.many_rows)]])
        floor = _sweep(bare_socket, bare, sizes.requests)
        floor_total = _throughput(bare_socket, bare, sizes.requests)
    for (operation, clients), load in many.items():
        yield Measure(
            f"{operation}, {clients} client{'s' * (clients > 1)}, {sizes.many_rows:,} locks: p95",
            p95(load.latencies),
            "ms",
            p95(floor[operation, clients].latencies),
            P95_MS[clients],
            note=f"p50 {p50(load.latencies):.2f}; with {sizes.few_rows} locks p95 {p95(few[operation, clients].latencies):.2f}",
        )
    yield Measure("operations, 10 clients, FULL durability", total.rate, "/s", floor_total.rate, 3000, 1 / 3)
