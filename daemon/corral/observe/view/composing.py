"""Compose the view: one read transaction, whatever face asks."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral import __version__
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions
from corral.core.errors import DatabaseDamaged
from corral.core.instants import after, iso, parse
from corral.core.needs import count
from corral.core.pages import SHOWN_BYTES, page
from corral.core.payload import Payload
from corral.observe.alerts.news import quiet_until
from corral.observe.view import landing_order
from corral.observe.view.api import View
from corral.observe.view.needs_you import needs_you
from corral.runners.process import available_mb
from corral.store import events
from corral.store.rows import required
from corral.store.rows.tasks import DayUse, SwarmMember
from corral.work.merges.store import merges, of_tasks
from corral.work.swarm import performance, swarm
from corral.work.tasks import delays
from corral.work.tasks import wire as task_shapes
from corral.work.tasks.store import attempts, lists, outcomes, tasks, work_pause
from corral.work.workers.in_flight import AttemptView
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
        rows = await services.store.read(_of_rows, services)
    except DatabaseDamaged:
        rows = _without_rows(services)
    return View.model_validate({**rows, "needs_you_number": count(rows["needs_you"]), **_of_project(services)})


def _of_rows(conn: Connection, services: Services) -> dict[str, Any]:
    now, pause = services.now(), services.of(Supervisor).pause
    return {
        "needs_you": needs_you(conn, services),
        "seq": events.newest(conn),
        **at_work(services, conn, now, MOST_SHOWN),
        **landing_order.queue(services, conn, MOST_SHOWN),
        "resources": resources(services, use_of_day(conn, now)),
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
        "resources": resources(services, None),
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


# -- The running attempts and what they use, for the view

DAY_S = 86_400.0
MIB = 1 << 20


def at_work(services: Services, conn: Connection, now: datetime, most: int) -> Payload:
    """The open attempts, the oldest task first: ``at_work``, and how many more there are."""
    members = swarm.members(conn)
    seen = {worker.task_id: worker for worker in services.of(Supervisor).at_work()}
    rows = [_attempt(row, seen.get(row["task_id"]), now) for row in members[:most]]
    return {"at_work": rows, "at_work_left_out": len(members) - len(rows)}


def _attempt(row: SwarmMember, seen: AttemptView | None, now: datetime) -> Payload:
    usage = task_shapes.usage([row])
    return {
        "task_id": row["task_id"],
        "number": row["seq"],
        "title": row["title"],
        "agent": required(row["agent_name"]),
        "session_id": row["session_id"],
        "kind": performance.kind_of(row["agent"], row["runner"]),
        "model": row["model"],
        "state": "terminating" if row["cancel_reason"] is not None else seen.state if seen else "running",
        "step": row["progress"],
        "tokens": usage["input_tokens"] + usage["output_tokens"],
        "cost_usd": usage["cost_usd"],
        "memory_mb": seen.memory_mb if seen else None,
        "attempt": row["number"],
        "claimed_at": row["claimed_at"],
        "age_s": max(0.0, (now - parse(row["claimed_at"])).total_seconds()),
    }


def use_of_day(conn: Connection, now: datetime) -> DayUse:
    """The tokens and the cost of the last 24 hours."""
    return attempts.use_since(conn, after(now, -DAY_S))


def resources(services: Services, day: DayUse | None) -> Payload:
    """The use of memory, disk, tokens and cost, each beside its limit; measures the machine."""
    supervisor, settings = services.of(Supervisor), services.settings()
    limits = settings.limits
    tokens, cost = (day["tokens"], day["cost_usd"]) if day is not None else (None, None)
    try:
        free_disk = shutil.disk_usage(services.project.root).free / MIB
    except OSError:  # the repository was moved away
        free_disk = None
    return {
        "agents": {"used": supervisor.places_taken, "allowed": settings.supervisor.max_agents},
        "memory_mb": {"used": round(supervisor.use.memory_mb), "allowed": limits.memory_mb},
        "free_memory_mb": round(available_mb()),
        "free_disk_mb": None if free_disk is None else round(free_disk),
        "tokens_per_day": {"used": tokens or 0, "allowed": limits.tokens_per_day},
        "cost_usd_per_day": {"used": round(cost or 0.0, 4), "allowed": limits.cost_usd_per_day},
    }
