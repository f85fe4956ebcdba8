"""The running attempts and what they use, for the view."""

from __future__ import annotations

import shutil
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.instants import after, parse
from corral.core.payload import Payload
from corral.runners.process import available_mb
from corral.store.rows import required
from corral.store.rows.tasks import DayUse, SwarmMember
from corral.work.swarm import performance, swarm
from corral.work.tasks import wire as task_shapes
from corral.work.tasks.store import attempts
from corral.work.workers.in_flight import AttemptView
from corral.work.workers.supervisor import Supervisor

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
