"""SQL for the running agents: each open attempt with its task and its session."""

from __future__ import annotations

from sqlalchemy import Connection, select

from corral.store.engine.fetch import fetch_all
from corral.store.rows.tasks import SwarmMember
from corral.store.schema import agent_sessions, attempts, tasks

_OF_TASK = ("task_id", "parent_task_id", "cancel_reason", "title")
_OF_SESSION = ("agent_name", "last_heartbeat")


def members(conn: Connection) -> list[SwarmMember]:
    """The open attempts, the oldest task first. One that is just starting has no session yet."""
    own = [name for name in SwarmMember.__annotations__ if name not in (*_OF_TASK, *_OF_SESSION)]
    query = (
        select(
            *(tasks.c[name] for name in _OF_TASK),
            *(agent_sessions.c[name] for name in _OF_SESSION),
            *(attempts.c[name] for name in own),
        )
        .join(tasks, tasks.c.task_id == attempts.c.task_id)
        .outerjoin(agent_sessions, agent_sessions.c.session_id == attempts.c.session_id)
        .where(attempts.c.ended_at.is_(None))
        .order_by(tasks.c.seq)
    )
    return fetch_all(conn, query, SwarmMember)
