"""The swarm: the running agents, what they use together, and what keeps more of them from starting."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.coordination.sessions.registry import name_to_be
from corral.core.errors import NotFound
from corral.core.instants import after
from corral.core.states import AttemptOutcome, RunnerName
from corral.store.rows import required
from corral.store.rows.tasks import SwarmMember, WorkedAttempt
from corral.work.swarm import performance
from corral.work.swarm import store as swarm
from corral.work.swarm.api import AgentState, RunningAgent, Swarm, SwarmMetrics, Terminating, UsedLimit, WhyHeld
from corral.work.tasks import wire as task_shapes
from corral.work.tasks.store import tasks, work_pause
from corral.work.tasks.tasks import find
from corral.work.workers.in_flight import AttemptView
from corral.work.workers.supervisor import Supervisor

WINDOW_S = 86_400.0
"""The metrics are those of so many seconds until now."""


def members(conn: Connection) -> list[SwarmMember]:
    """The open attempts, the oldest task first, each with the name that its session has, or gets when its worker has started."""
    return [{**row, "agent_name": _name(conn, row)} for row in swarm.members(conn)]


def worked_since(conn: Connection, since: str) -> list[WorkedAttempt]:
    """The attempts at the newest tasks that had not ended by an instant, with names as in :func:`members`."""
    return [{**row, "agent_name": _name(conn, row)} for row in swarm.worked_since(conn, since)]


def _name(conn: Connection, row: SwarmMember | WorkedAttempt) -> str:
    return row["agent_name"] or name_to_be(conn, row["session_id"])


def status(conn: Connection, services: Services) -> Swarm:
    """The agents, the limits, and what holds tasks back."""
    supervisor, settings = services.of(Supervisor), services.settings()
    views = {view.task_id: view for view in supervisor.at_work()}
    use = supervisor.use
    limits = {
        "supervisor.max_agents": _limit(supervisor.places_taken, settings.supervisor.max_agents),
        "queue.max_size": _limit(tasks.count_queued(conn), settings.queue.max_size),
        "limits.memory_mb": _limit(round(use.memory_mb), settings.limits.memory_mb),
        "limits.requests_per_minute": _limit(use.requests_per_minute, settings.limits.requests_per_minute),
        "limits.tokens_per_day": _limit(use.tokens_per_day, settings.limits.tokens_per_day),
        "limits.cost_usd_per_day": _limit(use.cost_usd_per_day, settings.limits.cost_usd_per_day),
    }
    agents = [_agent(row, views.get(row["task_id"])) for row in members(conn)]
    return {
        "agents": agents,
        "limits": limits,
        "throttled": _throttled(services, conn),
        "metrics": _metrics(conn, services.now()),
    }


def _throttled(services: Services, conn: Connection) -> list[WhyHeld]:
    supervisor = services.of(Supervisor)
    held = [throttle.shown for throttle in supervisor.throttles]
    if any(tasks.is_any_pending(conn, runner) for runner in RunnerName):
        pause, ordered = supervisor.pause, work_pause.current(conn)
        if ordered is not None:
            held.append({"limit": "pause", "reason": work_pause.described(ordered)})
        if pause is not None:
            held.append({"limit": "failed starts", "reason": f"No task is started now: {pause.reason}"})
        if supervisor.busy is not None:
            held.append({"limit": "supervisor.max_agents", "reason": supervisor.busy})
    return held


def _metrics(conn: Connection, now: datetime) -> SwarmMetrics:
    since = after(now, -WINDOW_S)
    ended = swarm.ended_since(conn, since)
    completed = [row for row in ended if row["outcome"] == AttemptOutcome.COMPLETED]
    return {
        "since_at": since,
        "tasks": tasks.counts(conn),
        **performance.durations(completed),
        "kinds": performance.by_kind(ended),
    }


async def kill(services: Services, name: str) -> Terminating:
    """Have the worker of an agent stopped; its task is tried again, as after any failure.

    Args:
        name: The agent's id or name, or the task that it works on.

    Raises:
        NotFound: No agent of that name is running.
    """

    def task_of(conn: Connection) -> str:
        for row in members(conn):
            if name in (row["agent_name"], row["session_id"], row["task_id"]):
                return row["task_id"]
        try:
            return find(conn, name)["task_id"]
        except NotFound:
            return name

    task_id = await services.store.read(task_of)
    if not services.of(Supervisor).kill(task_id):
        raise NotFound(
            f"No agent {name[:80]!r} is running.",
            cause="It has ended, has not started, or the name is mistyped.",
            remedy="`corral swarm status` shows the agents that are, and their tasks.",
        )
    return {"task_id": task_id, "state": "terminating"}


def _limit(used: float, allowed: float | None) -> UsedLimit:
    return {"used": used, "allowed": allowed}


def _agent(row: SwarmMember, view: AttemptView | None) -> RunningAgent:
    usage = task_shapes.usage([row])
    state: AgentState = "terminating" if row["cancel_reason"] is not None else view.state if view else "running"
    return {
        "agent_id": required(row["agent_name"]),
        "kind": performance.kind_of(row["agent"], row["runner"]),
        "task_id": row["task_id"],
        "parent": row["parent_task_id"],
        "state": state,
        "pid": row["pid"],
        "memory_mb": view.memory_mb if view else None,
        "tokens": usage["input_tokens"] + usage["output_tokens"],
        "cost_usd": usage["cost_usd"],
        "heartbeat_at": row["last_heartbeat"],
        "progress": row["progress"],
    }
