"""Many agents at many short tasks: the rate at which they are worked off, next to the ideal one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from bench.measure import Measure
from bench.world import World

AGENTS = 50
TASK_S = 1.0
OF_IDEAL = 0.7
"""Of the rate of agents that are never idle."""


def measure(world: World) -> Iterator[Measure]:
    """Measure tasks of one second, from the submission until the last is complete."""
    tasks = world.sizes.tasks_of_swarm
    agents = min(AGENTS, tasks)
    house = world.coordinated(world.sizes.files_of_tasks, f"supervisor: {{max_agents: {agents}}}\n")
    house.run("daemon", "start")
    client = house.client()
    batch = [{"title": f"task {number}", "command": f"sleep {TASK_S}"} for number in range(tasks)]
    began = time.perf_counter()
    ids = client.request("POST", "/tasks/batch", {"tasks": batch}, timeout_s=60)["task_ids"]
    answer: dict[str, Any] = {"settled": False}
    while not answer["settled"]:
        answer = client.request("GET", "/wait", query={"task": ids})
    taken = time.perf_counter() - began
    client.close()
    if not answer["done"]:
        raise RuntimeError(f"not done: {answer}")
    what = f"{tasks} tasks of {TASK_S:g} s, {agents} agents"
    note = f"{taken:.1f} s in all; floor: no agent is ever idle"
    yield Measure(what, tasks / taken, "/s", agents / TASK_S, ratio=OF_IDEAL, note=note)
