"""Compose the view: one read transaction, whatever face asks."""

from __future__ import annotations

import os
from typing import Any

from sqlalchemy import Connection

from corral import __version__
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions
from corral.core.errors import DatabaseDamaged
from corral.core.instants import iso
from corral.core.needs import count
from corral.core.pages import SHOWN_BYTES, page
from corral.core.payload import Payload
from corral.observe.alerts.timing import quiet_until
from corral.observe.view import landing_order, running
from corral.observe.view.api import View
from corral.observe.view.needs_you import needs_you
from corral.store import events
from corral.work.merges.store import merges, of_tasks
from corral.work.tasks import delays
from corral.work.tasks.store import lists, outcomes, tasks, work_pause
from corral.work.workers.supervisor import Supervisor

MOST_SHOWN = 50
"""Entries of a list in the view; it says how many it leaves out."""
MOST_DELAYED = 5
"""Tasks in the view that a fault of the machine holds back."""
MOST_RECENT = 10
"""Events in the view."""


async def view(services: Services) -> View:
    """The view of this moment. Without a readable database it has the faults, and no rows."""
    try:
        rows = await services.store.read(lambda conn: _of_rows(services, conn))
    except DatabaseDamaged:
        rows = _without_rows(services)
    return View.model_validate({**rows, "needs_you_number": count(rows["needs_you"]), **_of_project(services)})


def _of_rows(services: Services, conn: Connection) -> dict[str, Any]:
    now, pause = services.now(), services.of(Supervisor).pause
    return {
        "needs_you": needs_you(services, conn),
        "seq": events.newest(conn),
        **running.at_work(services, conn, now, MOST_SHOWN),
        **landing_order.queue(services, conn, MOST_SHOWN),
        "resources": running.resources(services, running.use_of_day(conn, now)),
        "open": outcomes.counts(conn),
        "tasks": tasks.counts(conn),
        "merges": merges.counts(conn),
        "delayed": delays.delayed(conn, pause, now, MOST_DELAYED),
        "paused": work_pause.current(conn),
        **_sessions(conn),
        "locks": lock_rows.count(conn, iso(now)),
        "recent": _recent(conn),
    }


def _without_rows(services: Services) -> dict[str, Any]:
    """The view without a database: the faults, first of all why there is none."""
    lists_of_rows = ("at_work", "queue", "delayed", "sessions", "recent")
    counts = ("at_work_left_out", "queue_left_out", "sessions_left_out", "locks", "seq")
    return {
        "needs_you": [need.to_wire() for need in services.faults.values()],
        **{name: [] for name in lists_of_rows},
        **dict.fromkeys(counts, 0),
        **{name: {} for name in ("tasks", "merges", "open")},
        "paused": None,
        "resources": running.resources(services, None),
    }


def _of_project(services: Services) -> Payload:
    broken, now = services.settings.error or services.teams.error, services.now()
    chosen = services.settings().notifications
    return {
        "composed_at": iso(now),
        "bell": chosen.bell and quiet_until(chosen.quiet_hours, now.astimezone()) is None,
        "project": str(services.project.root),
        "target": services.settings.target().removeprefix("refs/heads/"),
        "daemon": {"pid": os.getpid(), "version": __version__, "started_at": iso(services.started_at)},
        "verified": services.settings.verifies(),
        "config_error": broken.to_wire()["error"] if broken else None,
        "config_warnings": list(services.settings.loaded.warnings),
    }


def _sessions(conn: Connection) -> Payload:
    """The first sessions: unguarded ones first, then those with the latest heartbeat."""
    rows: list[Payload] = [
        {
            "session_id": row["session_id"],
            "agent_name": row["agent_name"],
            "status": sessions.shown_status(row),
            "current_task": row["current_task"],
            "waiting_for": row["waiting_for"],
            "waiting_since": row["waiting_since_at"],
            "unguarded": row["unguarded_since_at"] is not None,
        }
        for row in sorted(sessions.live(conn), key=lambda row: row["unguarded_since_at"] is None)
    ]
    shown = page(rows, MOST_SHOWN, size=SHOWN_BYTES).rows
    return {"sessions": shown, "sessions_left_out": len(rows) - len(shown)}


def _recent(conn: Connection) -> list[Payload]:
    rows = events.recent(conn, MOST_RECENT)
    titles = lists.titles(conn, [row["task_id"] for row in rows if row["task_id"]])
    titles |= merges.titles(conn, [row["merge_id"] for row in rows if row["merge_id"]])
    titles |= sessions.names_of(conn, [row["session_id"] for row in rows if row["session_id"]])
    numbers = of_tasks.numbers(conn, {row["task_id"] for row in rows if row["task_id"]})
    return [
        {
            **row,
            "number": numbers.get(row["task_id"] or ""),
            "title": titles.get(row["task_id"] or row["merge_id"] or row["session_id"] or "")
            or row["data"].get("target"),
        }
        for row in rows
    ]
