"""Figures of finished work: what is answered."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from corral.core.answers import Instant

By = Literal["agent", "template", "runner", "model"]
"""By what figures are told apart."""


class Spread(TypedDict):
    """Durations, seconds; null: there were none."""

    mean: float | None
    p50: float | None
    p95: float | None
    max: float | None


class Figures(TypedDict):
    """What tasks came to that ended; ``tokens`` and ``cost_usd`` of all their attempts, ``memory_mb`` the most of any.

    ``success_rate``: of completed and failed tasks, 0 to 1, null without any. ``duration_s``: of completed ones, from the start
    of the last worker to its end.
    """

    tasks: int
    completed: int
    cancelled: int
    failures: int
    failures_by_code: dict[str, int]
    success_rate: float | None
    duration_s: Spread
    tokens: int
    cost_usd: float
    memory_mb: int | None
    attempts: int


class FiguresOfDay(Figures):
    """The figures of a day (UTC)."""

    day: str


class FiguresOfGroup(Figures):
    """The figures of a group; ``name`` is empty for tasks without."""

    name: str


class EventCounts(TypedDict):
    """How often something happened: see the totals of the same names under ``GET /metrics``."""

    landings: int
    evictions: int
    conflicts: int
    flakes: int
    retries: int
    edits_denied: int
    lock_waits: int


class LandingsOfHour(TypedDict):
    """What landed in an hour (UTC, ``2026-01-31T14``)."""

    hour: str
    landed: int


class ColourOfTarget(TypedDict):
    """From when on a target was known to be green, or red without any change."""

    target: str
    at: Instant
    colour: Literal["green", "red"]


class WorkMetrics(Figures, EventCounts):
    """Figures of the work between two instants; ``left_out``: there were more tasks than are counted.

    ``states``: all tasks by their status now. ``queue_wait_s``: from submission to the first claim; ``landing_s``: from request
    to landing. ``runs_per_landing``: verifications that began, for each request that landed; null: none did. ``colours`` of the
    targets by each change.
    """

    since_at: Instant
    until_at: Instant | None
    by: By | None
    states: dict[str, int]
    queue_wait_s: Spread
    landing_s: Spread
    verification_s: Spread
    verifications_failed: int
    runs_per_landing: float | None
    landing_hours: list[LandingsOfHour]
    colours: list[ColourOfTarget]
    days: list[FiguresOfDay]
    groups: list[FiguresOfGroup]
    left_out: bool


class RecentWork(TypedDict):
    """How long the newest work took, and all tasks by their status now."""

    states: dict[str, int]
    queue_wait_s: Spread
    duration_s: Spread
    landing_s: Spread
    verification_s: Spread


class ProcessUse(TypedDict):
    """The daemon's own use: resident memory, MiB, and processor time since its start, seconds."""

    memory_mb: int
    cpu_s: float


class HookLatencies(TypedDict):
    """How long hook events took in the daemon since its start; a percentile is the upper bound of its bucket.

    ``mean_ms`` null: there were none; a percentile null: that, or beyond the last bound.
    """

    count: int
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None


class Metrics(WorkMetrics):
    """The figures of the work and of the daemon."""

    daemon: ProcessUse
    hooks: HookLatencies
