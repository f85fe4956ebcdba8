"""The start of a daemon, and an idle daemon."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.measure import Measure, spread, timed
from bench.reference import reference
from bench.world import World

FRESH_MB, WORKED_MB = 100, 120
"""What a daemon may take when it was started, and when it has worked off 500 tasks."""


def megabytes(pid: int) -> tuple[float, float]:
    """Resident and proportional size; the second is 0 where the system does not tell."""
    full = psutil.Process(pid).memory_full_info()
    return full.rss / 1e6, getattr(full, "pss", 0) / 1e6


def _children_faults(pid: int) -> int | None:
    """Page faults of ended children: the number grows with every started process. None: not Linux."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[8])
    except OSError:
        return None


def _start_reference(world: World) -> float:
    began = time.perf_counter()
    with reference(world.folder):
        return (time.perf_counter() - began) * 1000


def measure(world: World) -> Iterator[Measure]:
    """Measure start to first answer, memory, processor time and processes of an idle daemon."""
    house = world.coordinated(20)
    starts, floors = [], []
    client = house.client()
    for _ in range(max(2, world.sizes.turns // 3)):
        client.close()
        house.stop()
        starts.append(timed(client.ensure_daemon))
        floors.append(_start_reference(world))
    yield Measure(
        "daemon, start to first answer", min(starts) / 1000, "s", min(floors) / 1000, 1.0,
        note=f"ms: {spread(starts)}; floor: the reference daemon",
    )  # fmt: skip
    pid = house.daemon_pid()
    assert pid is not None
    client.close()
    time.sleep(world.sizes.idle_s / 2)
    process = psutil.Process(pid)
    before, faults = process.cpu_times(), _children_faults(pid)
    time.sleep(world.sizes.idle_s)
    after, later = process.cpu_times(), _children_faults(pid)
    spent = after.user + after.system - before.user - before.system
    yield Measure(
        f"daemon, idle for {world.sizes.idle_s:g} s: processor", 100 * spent / world.sizes.idle_s, "%", limit=0.5
    )
    forked = 0.0 if faults == later else 1.0
    yield Measure("daemon, idle: processes forked", forked, "", limit=0, note="" if faults is not None else "unknown")
    with reference(world.folder) as (_socket, bare):
        floor = megabytes(bare)
    resident, proportional = megabytes(pid)
    yield Measure("daemon, fresh: resident memory", resident, "MB", floor[0], FRESH_MB, proves="NFR-PERF-006")
    yield Measure("daemon, fresh: proportional memory", proportional, "MB", floor[1], FRESH_MB)
