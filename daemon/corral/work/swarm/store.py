"""SQL for the running agents, each open attempt with its task and its session, and for those that have ended."""

from __future__ import annotations

from sqlalchemy import Connection, func, or_, select

from corral.core.states import AttemptOutcome
from corral.store.engine.fetch import fetch_all
from corral.store.rows.tasks import EndedAttempt, SwarmMember, WorkedAttempt
from corral.store.schema import agent_sessions, attempts, tasks
from corral.work.tasks.wire import IMPROVEMENT

MOST_TASKS = 1000
"""Only attempts at the newest tasks are read, so that the cost does not grow with the history."""
_NEWEST_FOR_STREAK = 200
_OF_TASK = ("task_id", "seq", "parent_task_id", "cancel_reason", "title")
_REAL = select(tasks.c.task_id).where(tasks.c.task_type != IMPROVEMENT)
_OF_SESSION = ("agent_name", "last_heartbeat")


_MEMBERS = (
    select(
        *(tasks.c[name] for name in _OF_TASK),
        *(agent_sessions.c[name] for name in _OF_SESSION),
        func.coalesce(attempts.c.runner, tasks.c.runner).label("runner"),
        *(attempts.c[name] for name in SwarmMember.__annotations__ if name not in (*_OF_TASK, *_OF_SESSION, "runner")),
    )
    .join(tasks, tasks.c.task_id == attempts.c.task_id)
    .outerjoin(agent_sessions, agent_sessions.c.session_id == attempts.c.session_id)
    .where(attempts.c.ended_at.is_(None))
    .order_by(tasks.c.seq)
)


def members(conn: Connection) -> list[SwarmMember]:
    """The open attempts, the oldest task first. One that is just starting has no session yet."""
    return fetch_all(conn, _MEMBERS, SwarmMember)


def ended_since(conn: Connection, since: str, most_tasks: int = MOST_TASKS) -> list[EndedAttempt]:
    """The attempts at the newest tasks that ended after an instant, the oldest first."""
    newest = _REAL.order_by(tasks.c.seq.desc()).limit(most_tasks).subquery()
    used = {name: attempts.c.usage[name] for name in ("input_tokens", "output_tokens", "cost_usd")}
    read, written = (func.coalesce(used[name].as_integer(), 0) for name in ("input_tokens", "output_tokens"))
    plain = (attempts.c[name] for name in ("agent", "runner", "outcome", "started_at", "ended_at", "memory_mb"))
    cost = func.coalesce(used["cost_usd"].as_float(), 0.0).label("cost_usd")
    query = (
        select(*plain, (read + written).label("tokens"), cost)
        .join(newest, newest.c.task_id == attempts.c.task_id)
        .where(attempts.c.ended_at > since)
        .order_by(attempts.c.ended_at)
    )
    return fetch_all(conn, query, EndedAttempt)


def worked_since(conn: Connection, since: str, most_tasks: int = MOST_TASKS) -> list[WorkedAttempt]:
    """The attempts at the newest tasks that had not ended by an instant, in the order of their claims."""
    newest = (
        select(tasks.c.task_id, tasks.c.seq, tasks.c.title).order_by(tasks.c.seq.desc()).limit(most_tasks).subquery()
    )
    plain = (attempts.c[name] for name in ("task_id", "number", "session_id", "claimed_at", "ended_at", "outcome"))
    query = (
        select(*plain, newest.c.seq, newest.c.title, agent_sessions.c.agent_name)
        .join(newest, newest.c.task_id == attempts.c.task_id)
        .outerjoin(agent_sessions, agent_sessions.c.session_id == attempts.c.session_id)
        .where(or_(attempts.c.ended_at.is_(None), attempts.c.ended_at > since))
        .order_by(attempts.c.claimed_at, attempts.c.task_id)
    )
    return fetch_all(conn, query, WorkedAttempt)


def failures_in_a_row(conn: Connection, agent: str | None, runner: str | None, most: int) -> int:
    """How many of the last attempts of an agent, or without one of a runner, failed in a row, counted up to ``most``.

    Attempts that the machine, a person or Corral ended say nothing about it, and are passed over.
    """
    newest = _REAL.order_by(tasks.c.seq.desc()).limit(_NEWEST_FOR_STREAK).subquery()
    query = (
        select(attempts.c.outcome)
        .join(newest, newest.c.task_id == attempts.c.task_id)
        .where(attempts.c.agent.is_not_distinct_from(agent), attempts.c.runner.is_not_distinct_from(runner))
        .where(attempts.c.outcome.in_((AttemptOutcome.COMPLETED, AttemptOutcome.FAILED)))
        .order_by(attempts.c.ended_at.desc())
        .limit(most)
    )
    failures = 0
    for outcome in conn.execute(query).scalars():
        if outcome != AttemptOutcome.FAILED:
            break
        failures += 1
    return failures
