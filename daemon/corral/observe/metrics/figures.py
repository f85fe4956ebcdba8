"""Figures of finished work: counts, rates, durations and use, of everything and by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from statistics import fmean

from sqlalchemy import Connection

from corral.core.instants import iso, parse
from corral.core.payload import Payload
from corral.core.states import ReceiptStatus, TaskStatus
from corral.observe.metrics import store as metrics
from corral.store import totals
from corral.store.rows.metrics import FinishedTask
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


def collect(conn: Connection, since: datetime, by: str | None) -> Payload:
    """Figures of the work that ended after an instant.

    Args:
        by: One of :data:`GROUPS`; None: no groups.

    Returns:
        ``{since_at, by, **figures, states, queue_wait_s, landing_s, verification_s, verifications_failed, evictions, conflicts,
        flakes, retries, edits_denied, lock_waits, days, groups, left_out}``. ``figures`` are ``{tasks, completed, cancelled,
        failures, failures_by_code, success_rate, duration_s, tokens, cost_usd, memory_mb, attempts}``; each day and each group
        has them too, with its ``day`` (UTC) or ``name``. ``success_rate`` is that of completed and failed tasks, 0 to 1, or None
        without any. Durations are ``{mean, p50, p95, max}`` in seconds, each None without any: ``duration_s`` of completed
        tasks from the start of the last worker to its end, ``queue_wait_s`` from submission to the first claim, ``landing_s``
        from request to landing. ``states`` counts all tasks by their state now.
    """
    at = iso(since)
    rows = metrics.finished(conn, at, MOST_TASKS + 1)
    shown, counted = rows[-MOST_TASKS:], metrics.count_events(conn, at, [str(kind) for kind in totals.EVENTS.values()])
    landings, verdicts = metrics.landed(conn, at), metrics.verifications(conn, at)
    return {
        "since_at": at,
        "by": by,
        **_figures(shown),
        "states": tasks.counts(conn),
        "queue_wait_s": _spread(_between(row["created_at"], row["claimed_at"]) for row in shown),
        "landing_s": _spread(_between(row["created_at"], row["finished_at"]) for row in landings),
        "verification_s": _spread(row["duration_s"] for row in verdicts),
        "verifications_failed": sum(row["status"] == ReceiptStatus.FAILED for row in verdicts),
        **{name: counted.get(str(kind), 0) for name, kind in totals.EVENTS.items()},
        "days": _grouped("day", shown, lambda row: row["completed_at"][:10]),
        "groups": _grouped("name", shown, GROUPS[by]) if by is not None else [],
        "left_out": len(rows) > len(shown),
    }


def recent(conn: Connection) -> Payload:
    """How long the newest work took, and all tasks by their state now; it costs the same however much has ended.

    Returns:
        ``{states, queue_wait_s, duration_s, landing_s, verification_s}`` as :func:`collect` has them.
    """
    ended = metrics.recent(conn, MOST_RECENT)
    landings, verdicts = metrics.landed(conn, "", MOST_RECENT), metrics.verifications(conn, "", MOST_RECENT)
    completed = (row for row in ended if row["status"] == TaskStatus.COMPLETED)
    return {
        "states": tasks.counts(conn),
        "queue_wait_s": _spread(_between(row["created_at"], row["claimed_at"]) for row in ended),
        "duration_s": _spread(_between(row["started_at"], row["ended_at"]) for row in completed),
        "landing_s": _spread(_between(row["created_at"], row["finished_at"]) for row in landings),
        "verification_s": _spread(row["duration_s"] for row in verdicts),
    }


def _grouped(label: str, rows: Iterable[FinishedTask], of: Callable[[FinishedTask], str]) -> list[Payload]:
    found: dict[str, list[FinishedTask]] = {}
    for row in rows:
        found.setdefault(of(row), []).append(row)
    return [{label: name, **_figures(members)} for name, members in sorted(found.items())]


def _figures(rows: Sequence[FinishedTask]) -> Payload:
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
        "duration_s": _spread(_between(row["started_at"], row["ended_at"]) for row in completed),
        "tokens": sum(row["tokens"] for row in rows),
        "cost_usd": round(sum(row["cost_usd"] for row in rows), 6),
        "memory_mb": max((row["memory_mb"] or 0 for row in rows), default=0) or None,
        "attempts": sum(row["attempts"] for row in rows),
    }


def _between(began: str | None, ended: str | None) -> float | None:
    return (parse(ended) - parse(began)).total_seconds() if began and ended else None


def _spread(values: Iterable[float | None]) -> dict[str, float | None]:
    found = sorted(value for value in values if value is not None)
    if not found:
        return dict.fromkeys(("mean", "p50", "p95", "max"))
    told = {"mean": fmean(found), "p50": _percentile(found, 50), "p95": _percentile(found, 95), "max": found[-1]}
    return {name: round(value, 3) for name, value in told.items()}


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent do not exceed."""
    return ordered[-(-percent * len(ordered) // 100) - 1]
