"""Figures of finished work: counts, rates, durations and use, of everything and by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import fmean
from typing import Literal

from sqlalchemy import Connection

from corral.core.events import EventKind
from corral.core.instants import iso, lasted_s
from corral.core.payload import shaped
from corral.core.states import ReceiptStatus, TaskStatus
from corral.observe.metrics import store as metrics
from corral.observe.metrics.api import (
    By,
    ColourOfTarget,
    EventCounts,
    Figures,
    LandingsOfHour,
    RecentWork,
    Spread,
    WorkMetrics,
)
from corral.store import totals
from corral.store.rows.metrics import FinishedTask, LandedMerge, TargetSeen
from corral.work.merges.wire import TARGET_RED
from corral.work.swarm import performance
from corral.work.tasks.store import tasks

MOST_TASKS = 100_000
"""Finished tasks in one answer; the newest count, and ``left_out`` says that there were more."""
GROUPS: dict[str, Callable[[FinishedTask], str]] = {
    "agent": lambda row: performance.kind_of(row["agent"], row["runner"]),
    "template": lambda row: row["template"] or "",
    "runner": lambda row: row["runner"] or totals.SESSION,
    "model": lambda row: row["model"] or "",
}
"""By what figures are told apart; an empty name is that of tasks without."""
_FAILED = (TaskStatus.FAILED, TaskStatus.DEAD)
MOST_RECENT = 200
"""Tasks, landings and verifications that the quantiles of :func:`recent` are of."""


def collect(conn: Connection, since: datetime, by: By | None, until: datetime | None = None) -> WorkMetrics:
    """Figures of the work that ended after one instant, and not after another; without groups where ``by`` is None."""
    at, end = iso(since), iso(until) if until is not None else metrics.LATEST
    rows = metrics.finished(conn, at, MOST_TASKS + 1, end)
    shown = rows[-MOST_TASKS:]
    landings, verdicts = metrics.landed(conn, at, until=end), metrics.verifications(conn, at, until=end)
    return {
        "since_at": at,
        "until_at": iso(until) if until is not None else None,
        "by": by,
        **_figures(shown),
        "states": tasks.counts(conn),
        "queue_wait_s": _spread(lasted_s(row["created_at"], row["claimed_at"]) for row in shown),
        "landing_s": _spread(lasted_s(row["created_at"], row["finished_at"]) for row in landings),
        "verification_s": _spread(row["duration_s"] for row in verdicts),
        "verifications_failed": sum(row["status"] == ReceiptStatus.FAILED for row in verdicts),
        **_events(metrics.count_events(conn, at, [str(kind) for kind in totals.EVENTS.values()], end)),
        "runs_per_landing": _ratio(metrics.verification_runs_between(conn, at, end), len(landings)),
        "landing_hours": _by_hour(landings),
        "colours": _colours(metrics.targets_seen(conn, at, end)),
        "days": [{"day": name, **figures} for name, figures in _grouped(shown, lambda row: row["completed_at"][:10])],
        "groups": [{"name": name, **figures} for name, figures in _grouped(shown, GROUPS[by])] if by else [],
        "left_out": len(rows) > len(shown),
    }


def recent(conn: Connection) -> RecentWork:
    """How long the newest work took, and all tasks by their state now; it costs the same however much has ended."""
    ended = metrics.recent(conn, MOST_RECENT)
    landings, verdicts = metrics.landed(conn, "", most=MOST_RECENT), metrics.verifications(conn, "", most=MOST_RECENT)
    completed = (row for row in ended if row["status"] == TaskStatus.COMPLETED)
    return {
        "states": tasks.counts(conn),
        "queue_wait_s": _spread(lasted_s(row["created_at"], row["claimed_at"]) for row in ended),
        "duration_s": _spread(lasted_s(row["started_at"], row["ended_at"]) for row in completed),
        "landing_s": _spread(lasted_s(row["created_at"], row["finished_at"]) for row in landings),
        "verification_s": _spread(row["duration_s"] for row in verdicts),
    }


def _ratio(number: int, of: int) -> float | None:
    return round(number / of, 2) if of else None


def _by_hour(landings: Iterable[LandedMerge]) -> list[LandingsOfHour]:
    hours = Counter(row["finished_at"][:13] for row in landings)
    return [{"hour": hour, "landed": number} for hour, number in sorted(hours.items())]


def _colours(seen: Iterable[TargetSeen]) -> list[ColourOfTarget]:
    """The changes of colour: green with each landing that was verified, red where a request is held because its target fails
    without it; and both by the verdict on a tip that did not come from a verification."""
    now: dict[str, Literal["green", "red"]] = {}
    changes: list[ColourOfTarget] = []
    for row in seen:
        is_red = row["kind"] == EventKind.TARGET_PAUSED or str(row["reason"]).startswith(TARGET_RED)
        if row["kind"] == EventKind.MERGE_HELD and not is_red:
            continue
        colour: Literal["green", "red"] = "red" if is_red else "green"
        if now.get(row["target"]) != colour:
            now[row["target"]] = colour
            changes.append({"target": row["target"], "at": row["at"], "colour": colour})
    return changes


def _grouped(rows: Iterable[FinishedTask], of: Callable[[FinishedTask], str]) -> Iterator[tuple[str, Figures]]:
    groups: dict[str, list[FinishedTask]] = {}
    for row in rows:
        groups.setdefault(of(row), []).append(row)
    return ((name, _figures(members)) for name, members in sorted(groups.items()))


def _events(counted: Mapping[str, int]) -> EventCounts:
    return shaped(EventCounts, {name: counted.get(str(kind), 0) for name, kind in totals.EVENTS.items()})


def _figures(rows: Sequence[FinishedTask]) -> Figures:
    completed = [row for row in rows if row["status"] == TaskStatus.COMPLETED]
    failed = [row for row in rows if row["status"] in _FAILED]
    judged = len(completed) + len(failed)
    return {
        "tasks": len(rows),
        "completed": len(completed),
        "cancelled": len(rows) - judged,
        "failures": len(failed),
        "failures_by_code": dict(Counter(row["error_code"] or "failed" for row in failed).most_common()),
        "success_rate": round(len(completed) / judged, 4) if judged else None,
        "duration_s": _spread(lasted_s(row["started_at"], row["ended_at"]) for row in completed),
        "tokens": sum(row["tokens"] for row in rows),
        "cost_usd": round(sum(row["cost_usd"] for row in rows), 6),
        "memory_mb": max((row["memory_mb"] or 0 for row in rows), default=0) or None,
        "attempts": sum(row["attempts"] for row in rows),
    }


def _spread(values: Iterable[float | None]) -> Spread:
    numbers = sorted(value for value in values if value is not None)
    if not numbers:
        return {"mean": None, "p50": None, "p95": None, "max": None}
    return {
        "mean": round(fmean(numbers), 3),
        "p50": round(_percentile(numbers, 50), 3),
        "p95": round(_percentile(numbers, 95), 3),
        "max": round(numbers[-1], 3),
    }


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent do not exceed."""
    return ordered[-(-percent * len(ordered) // 100) - 1]
