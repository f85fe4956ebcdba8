"""The swarm: what is answered."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from corral.core.answers import Instant

AgentState = Literal["spawning", "running", "terminating"]


class RunningAgent(TypedDict):
    """An agent at work; ``kind``: its name, or its runner; ``memory_mb`` null: not measured yet.

    ``parent``: the task that its task is part of; ``heartbeat_at`` null: its session has just begun.
    """

    agent_id: str
    kind: str
    task_id: str
    parent: str | None
    state: AgentState
    pid: int | None
    memory_mb: int | None
    tokens: int
    cost_usd: float
    heartbeat_at: Instant | None
    progress: str | None


class UsedLimit(TypedDict):
    """How much of a limit is used, in the unit of its setting; ``allowed`` null: without a limit."""

    used: float
    allowed: float | None


class WhyHeld(TypedDict):
    """What keeps further workers from starting: a setting, or words for something else.

    ``used`` and ``allowed``: of a setting, in its unit; ``left``: memory of the machine, MiB; ``until``: of a model that refuses.
    """

    limit: str
    reason: str
    used: NotRequired[float]
    allowed: NotRequired[float]
    left: NotRequired[float]
    until: NotRequired[Instant]


class Durations(TypedDict):
    """How long completed attempts took from the start of the worker, seconds; null: there were none."""

    mean_s: float | None
    median_s: float | None
    p95_s: float | None


class KindFigures(Durations):
    """What the attempts of a kind of agents came to.

    ``other``: those that Corral, a person or the machine ended. ``success_rate``: of completed and failed ones, 0 to 1, null
    without any; ``memory_mb``: the most of any of them.
    """

    kind: str
    completed: int
    failed: int
    other: int
    success_rate: float | None
    tokens: int
    cost_usd: float
    memory_mb: int | None


class SwarmMetrics(Durations):
    """Attempts since then, of all kinds and of each; ``tasks``: all by their status now."""

    since_at: Instant
    tasks: dict[str, int]
    kinds: list[KindFigures]


class Swarm(TypedDict):
    """The running agents; ``limits`` by the name of the setting; ``throttled``: what holds tasks back."""

    agents: list[RunningAgent]
    limits: dict[str, UsedLimit]
    throttled: list[WhyHeld]
    metrics: SwarmMetrics


class Terminating(TypedDict):
    """The task whose worker is being stopped."""

    task_id: str
    state: Literal["terminating"]
