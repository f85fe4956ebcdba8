"""How the kinds of agents do: counts, rates, durations and use of their ended attempts, and which of them keep failing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from corral.core.events import EventKind
from corral.core.instants import lasted_s
from corral.core.states import AttemptOutcome
from corral.store import events
from corral.store.rows.tasks import EndedAttempt, TaskRow
from corral.store.totals import SESSION
from corral.work.swarm import store as swarm
from corral.work.swarm.api import Durations, KindFigures
from corral.work.tasks.store import attempts
from corral.work.tasks.wire import IMPROVEMENT

KEEPS_FAILING = 5
"""Failed attempts of one kind in a row that are recorded as an error of their own, once."""


def kind_of(agent: str | None, runner: str | None) -> str:
    """The kind of an agent: its name, or without one its runner."""
    return agent or runner or SESSION


def by_kind(ended: Sequence[EndedAttempt]) -> list[KindFigures]:
    """The kinds by name, each with what its attempts came to."""
    kinds: dict[str, list[EndedAttempt]] = {}
    for row in ended:
        kinds.setdefault(kind_of(row["agent"], row["runner"]), []).append(row)
    return [_figures(kind, rows) for kind, rows in sorted(kinds.items())]


def _figures(kind: str, rows: Sequence[EndedAttempt]) -> KindFigures:
    completed = sum(row["outcome"] == AttemptOutcome.COMPLETED for row in rows)
    failed = sum(row["outcome"] == AttemptOutcome.FAILED for row in rows)
    return {
        "kind": kind,
        "completed": completed,
        "failed": failed,
        "other": len(rows) - completed - failed,
        "success_rate": round(completed / (completed + failed), 4) if completed + failed else None,
        **durations([row for row in rows if row["outcome"] == AttemptOutcome.COMPLETED]),
        "tokens": sum(row["tokens"] for row in rows),
        "cost_usd": round(sum(row["cost_usd"] for row in rows), 6),
        "memory_mb": max((row["memory_mb"] or 0 for row in rows), default=0) or None,
    }


def durations(rows: Sequence[EndedAttempt]) -> Durations:
    """How long attempts took that started."""
    spans = (lasted_s(row["started_at"], row["ended_at"]) for row in rows)
    lasted = sorted(span for span in spans if span is not None)
    if not lasted:
        return {"mean_s": None, "median_s": None, "p95_s": None}
    nearest = lasted[-(-95 * len(lasted) // 100) - 1]  # the smallest that 95 % do not exceed
    mean_s, median_s = statistics.fmean(lasted), statistics.median(lasted)
    return {"mean_s": round(mean_s, 3), "median_s": round(median_s, 3), "p95_s": round(nearest, 3)}


def note_failure(conn: Connection, task: TaskRow, number: int, now: datetime) -> None:
    """An attempt has failed: record it if its kind has now failed :data:`KEEPS_FAILING` times in a row.

    Sessions are of no kind: each is somebody else. Test cases of an improvement say nothing of one.
    """
    task_id = task["task_id"]
    row = next(attempt for attempt in attempts.of_task(conn, task_id) if attempt["number"] == number)
    if row["runner"] is None or task["task_type"] == IMPROVEMENT:
        return
    if swarm.failures_in_a_row(conn, row["agent"], row["runner"], KEEPS_FAILING + 1) != KEEPS_FAILING:
        return
    kind, why = kind_of(row["agent"], row["runner"]), f"{row['error_code']}: {row['error_message']}"
    reason = f"{KEEPS_FAILING} attempts by {kind} failed in a row, the last one, at task {task_id[:8]}, with {why}"
    failing = EventKind.AGENT_FAILING({"agent": kind, "failures": KEEPS_FAILING, "reason": reason})
    events.record(conn, now, failing)
