"""Tasks over the socket: submit, claim, complete, list, batch."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from bench.idle import megabytes
from bench.load import Link, drive, http, line
from bench.measure import Measure, in_turns, p50, p95, spread
from bench.operations import QUIET
from bench.reference import reference
from bench.world import World
from corral.config.paths import find_project, socket_path


def _submissions(count: int) -> list[bytes]:
    return [http("POST", "/tasks", {"title": f"task {number}", "command": "true"}) for number in range(count)]


CLIENTS = 10
BESIDE_A_LOCK = 1.5
"""How much the submission, the claim and the completion of a task may take, each beside a lock."""


async def _take(socket: Path, turn: str, each: int) -> tuple[list[float], list[float]]:
    """Sessions claim a task and complete it, again and again; the latencies of the claims, and of the completions, ms."""
    loop = asyncio.get_running_loop()
    claims, ends = list[float](), list[float]()

    async def work(session: str) -> None:
        link = (await loop.create_unix_connection(Link, str(socket)))[1]
        await link.ask(http("POST", f"/sessions/{session}/heartbeat"))
        for _ in range(each):
            began = time.perf_counter()
            await link.ask(http("POST", "/tasks/claim", {"session_id": session}))
            claimed = time.perf_counter()
            task_id = json.loads(link.body)["task_id"]
            status = await link.ask(
                http("POST", f"/tasks/{task_id}/complete", {"success": True, "session_id": session})
            )
            if status != 200:
                raise RuntimeError(f"the completion was answered {status}")
            claims.append((claimed - began) * 1000)
            ends.append((time.perf_counter() - claimed) * 1000)
        link.close()

    await asyncio.gather(*(work(f"{turn}-{number}") for number in range(CLIENTS)))
    return claims, ends


def _beside_locks(socket: Path, requests: int, offer: Callable[[int], object]) -> Iterator[Measure]:
    """Tasks and locks of ten clients, in turns; ``offer`` submits so many tasks that sessions can claim."""
    each = max(1, requests // CLIENTS)

    def lock(client: int, turn: int, number: int) -> bytes:
        key = {"session_id": f"lock-{turn}-{client}", "paths": [f"{turn}/{client}/{number}"]}
        return http("POST", "/locks/acquire", key)

    taken: dict[str, list[float]] = {name: [] for name in ("lock", "submit", "claim by a session", "complete")}
    for turn in range(3):
        locks = [[lock(client, turn, number) for number in range(each)] for client in range(CLIENTS)]
        submitted = drive(socket, [_submissions(each) for _ in range(CLIENTS)])
        offer(each * CLIENTS)
        claims, ends = asyncio.run(_take(socket, f"worker-{turn}", each))
        times = drive(socket, locks).latencies, submitted.latencies, claims, ends
        for medians, latencies in zip(taken.values(), times, strict=True):
            medians.append(p50(latencies))
    floor = min(taken.pop("lock"))
    for what, medians in taken.items():
        name = f"task {what}, {CLIENTS} clients: p50"
        yield Measure(name, min(medians), "ms", floor, ratio=BESIDE_A_LOCK, note="floor: a lock")


def measure(world: World) -> Iterator[Measure]:
    """Submit with few and with many tasks; a list of 1,000; a batch of 100."""
    sizes = world.sizes
    house = world.coordinated(20, QUIET)
    house.run("daemon", "start")
    socket = socket_path(find_project(house.root))
    client = house.client()

    def batch(count: int, **how: str) -> object:
        tasks = [{"title": f"task {number}", **how} for number in range(count)]
        return client.request("POST", "/tasks/batch", {"tasks": tasks}, timeout_s=120)

    batch(sizes.few_rows, command="true")
    few = drive(socket, [_submissions(sizes.requests // 3)])
    pid = house.daemon_pid()
    assert pid is not None
    small, _ = megabytes(pid)
    made = sizes.few_rows + sizes.requests // 3
    while made < sizes.many_rows:
        batch(min(1000, sizes.many_rows), command="true")
        made += min(1000, sizes.many_rows)
    many = drive(socket, [_submissions(sizes.requests // 3)])
    yield from _beside_locks(socket, sizes.requests // 3, batch)
    with reference(world.folder) as (bare, _pid):
        calls = [line(op="submit", id=str(uuid4()), title="task") for _ in range(sizes.many_rows)]
        floor = drive(bare, [calls])
    yield Measure(
        f"task submit, {sizes.many_rows:,} tasks: p95", p95(many.latencies), "ms", p95(floor.latencies), 10,
        note=f"p50 {p50(many.latencies):.2f}; with {sizes.few_rows} tasks p95 {p95(few.latencies):.2f}",
        proves="NFR-PERF-001 NFR-PERF-005",
    )  # fmt: skip
    listed, health = in_turns(
        sizes.turns,
        lambda: client.request("GET", "/tasks", query={"limit": 1000}),
        lambda: client.request("GET", "/health"),
    )
    yield Measure(
        "task list of 1,000", min(listed), "ms", min(health), 50,
        note=f"{spread(listed)}; floor: health", proves="NFR-PERF-001",
    )  # fmt: skip
    pages = [http("GET", "/tasks?status=pending&limit=50") for _ in range(sizes.requests // 10)]
    shown = drive(socket, [pages])
    waiting = client.request("GET", "/tasks", query={"limit": len(pages), "status": "pending"})
    ended = drive(socket, [[http("POST", f"/tasks/{task['task_id']}/cancel", {}) for task in waiting]])
    for what, load in (("list of 50", shown), ("cancel", ended)):
        yield Measure(
            f"task {what}, {sizes.many_rows:,} tasks: p95", p95(load.latencies), "ms", limit=100,
            note=f"p50 {p50(load.latencies):.2f}", proves="NFR-PERF-001 NFR-PERF-005",
        )  # fmt: skip
    (batches,) = in_turns(max(2, sizes.turns // 3), lambda: batch(100, command="true"))
    yield Measure(
        "batch of 100 tasks", p95(batches), "ms", 100 * p50(floor.latencies), 500,
        note=spread(batches), proves="FR-QUEUE-007",
    )  # fmt: skip
    large, _ = megabytes(pid)
    yield Measure(
        f"daemon, {sizes.many_rows:,} tasks: resident memory", large, "MB", small, 200, 1.5,
        note=f"floor: with {sizes.few_rows} tasks", proves="NFR-PERF-006",
    )  # fmt: skip
    client.close()
