"""Agents at short tasks: the rate at which a backlog is worked off, next to the ideal one, and how soon each one starts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.idle import WORKED_MB, megabytes
from bench.measure import Measure, p50, p95
from bench.world import World
from corral.client.connection import Client
from corral.core.instants import parse

AGENTS = 50
TASK_S = 1.0
OF_IDEAL = 0.7
"""Of the rate of agents that are never idle."""
OF_ONE = 0.9
"""Of the rate of one agent, per agent, with ten of them."""
SPAWN_MS, DISTRIBUTE_MS = 5000, 100


# Two of them at once would take each other's half-made entry for a broken one.
_ONE = """
flock "$0.lock" git worktree add -q --no-track -b "loop-$2" "$0/$2" HEAD
(cd "$0/$2" && sleep "$1" && git add -A && git diff --cached --quiet)
flock "$0.lock" git worktree remove "$0/$2"
flock "$0.lock" git branch -q -d "loop-$2"
"""


@dataclass(frozen=True)
class Worked:
    """A backlog that was worked off.

    Attributes:
        rate: Tasks a second.
        spawns: From the claim of a task to its running worker, ms each.
        picks: From the submission of a task that an agent is free for to its claim, ms each.
        memory: Resident memory of the daemon afterwards, MB.
    """

    rate: float
    spawns: list[float]
    picks: list[float]
    memory: float


def measure(world: World) -> Iterator[Measure]:
    """Measure tasks of one second with one agent, with ten, and with fifty."""
    tasks = world.sizes.tasks_of_swarm
    alone, ten = (_work_off(world, agents, max(2, tasks * agents // AGENTS)) for agents in (1, 10))
    many = _work_off(world, min(AGENTS, tasks), tasks)
    note = "floor: one agent"
    yield Measure(
        "tasks of 1 s with 10 agents, by agent",
        ten.rate / 10,
        "/s",
        alone.rate,
        ratio=OF_ONE,
        note=note,
        proves="NFR-PERF-004",
    )
    agents = min(AGENTS, tasks)
    busy, loop = agents / TASK_S, _loop(world, agents, tasks)
    note = f"{tasks / many.rate:.1f} s in all; floor: the lower of no idle agent, {busy:g} /s, and a shell loop, {loop:.1f} /s"
    what = f"{tasks} tasks of {TASK_S:g} s, {agents} agents"
    yield Measure(what, many.rate, "/s", min(busy, loop), ratio=OF_IDEAL, note=note)
    yield Measure(f"daemon, after {tasks} tasks: resident memory", many.memory, "MB", limit=WORKED_MB)
    note = f"p50 {p50(alone.picks):.0f}"
    yield Measure("distribution: submission to claim, p95", p95(alone.picks), "ms", limit=DISTRIBUTE_MS, note=note)
    for work, agents in ((ten, 10), (many, min(AGENTS, tasks))):
        note = f"p50 {p50(work.spawns):.0f}"
        yield Measure(
            f"spawn of an agent, {agents} agents, p95",
            p95(work.spawns),
            "ms",
            limit=SPAWN_MS,
            note=note,
            proves="NFR-PERF-002",
        )


def _loop(world: World, agents: int, tasks: int) -> float:
    """The rate of a shell loop with as many agents at once: what git itself leaves of this machine for such short tasks."""
    root = world.coordinated(world.sizes.files_of_swarm, "").root
    began = time.perf_counter()
    numbers = "".join(f"{number}\n" for number in range(tasks))
    argv = ["xargs", "-P", str(agents), "-n", "1", "sh", "-ec", _ONE, str(world.folder / "loop"), f"{TASK_S:g}"]
    subprocess.run(argv, cwd=root, input=numbers, text=True, check=True)
    return tasks / (time.perf_counter() - began)


def _work_off(world: World, agents: int, tasks: int) -> Worked:
    house = world.coordinated(world.sizes.files_of_swarm, f"supervisor: {{max_agents: {agents}}}\n")
    house.run("daemon", "start")
    client = house.client()
    batch = [{"title": f"task {number}", "command": f"sleep {TASK_S}"} for number in range(tasks)]
    began = time.perf_counter()
    ids = client.request("POST", "/tasks/batch", {"tasks": batch}, timeout_s=60)["task_ids"]
    answer: dict[str, Any] = {"settled": False}
    while not answer["settled"]:
        answer = client.request("GET", "/wait", query={"task": ids})
    taken = time.perf_counter() - began
    if not answer["done"]:
        raise RuntimeError(f"not done: {answer}")
    attempts = [_told(client, task_id) for task_id in ids]
    alone = [_alone(client) for _ in range(world.sizes.turns)]
    client.close()
    memory, _ = megabytes(house.daemon_pid() or 0)
    house.stop()
    return Worked(
        rate=tasks / taken,
        spawns=[attempt["started_at"] - attempt["claimed_at"] for attempt in attempts],
        picks=[attempt["claimed_at"] - attempt["created_at"] for attempt in alone],
        memory=memory,
    )


def _alone(client: Client) -> dict[str, float]:
    task_id = client.request("POST", "/tasks", {"title": "alone", "command": "true"})["task_id"]
    while not client.request("GET", "/wait", query={"task": [task_id]})["settled"]:
        pass
    return _told(client, task_id)


def _told(client: Client, task_id: str) -> dict[str, float]:
    """The instants of a task and of its attempt, ms."""
    task = client.request("GET", f"/tasks/{task_id}/detail")
    attempt = {**task["attempt_history"][-1], "created_at": task["created_at"]}
    return {key: parse(attempt[key]).timestamp() * 1000 for key in ("created_at", "claimed_at", "started_at")}
