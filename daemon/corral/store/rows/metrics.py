"""Rows of the figures."""

from typing import Annotated, Any, TypedDict

from corral.store.rows import Name, State


class FinishedTask(TypedDict):
    """A task that has ended: who did it last, when, and what all its attempts used."""

    task_id: str
    status: str
    error_code: str | None
    template: str | None
    created_at: str
    completed_at: str
    agent: str | None
    runner: str | None
    model: str | None
    started_at: str | None
    ended_at: str | None
    claimed_at: str | None
    attempts: int
    tokens: int
    cost_usd: float
    memory_mb: int | None


class LandedMerge(TypedDict):
    """The instants at which a landed request was submitted and landed."""

    created_at: str
    finished_at: str


class TargetSeen(TypedDict):
    """That a target was seen green, by a landing, or red, by a request that was held for it; or either, as its tip was judged."""

    target: str
    at: str
    kind: str
    reason: str | None


class Verification(TypedDict):
    """A verification's verdict, and how long it took, seconds."""

    status: str
    duration_s: float


class RecentTask(TypedDict):
    """The instants at which an ended task was submitted and first claimed, and at which its last worker started and ended."""

    status: str
    created_at: str
    claimed_at: str | None
    started_at: str | None
    ended_at: str | None


class TotalRow(TypedDict):
    """A number that only grows: how often something happened, or how much was used.

    ``label`` is the agent or error code that it is of, or empty; ``outcome`` may be empty too.
    """

    name: Annotated[str, 32]
    label: Name
    outcome: State
    number: float


class UsedAttempt(TypedDict):
    """The kind of an attempt's agent, and the attempt's use."""

    kind: str
    usage: dict[str, Any]
