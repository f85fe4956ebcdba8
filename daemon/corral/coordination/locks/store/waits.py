"""SQL for the sessions that wait for a lock, first come first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from corral.core.states import SessionStatus
from corral.store.engine.prepared import Prepared
from corral.store.rows.sessions import LockWaitRow, WaitingSession
from corral.store.schema import agent_sessions
from corral.store.schema_coordination import lock_waits

_WAITING = Prepared[WaitingSession](
    select(
        lock_waits,
        *(agent_sessions.c[name] for name in ("agent_name", "agent_type", "current_task", "parent_session_id")),
    )
    .join(agent_sessions, agent_sessions.c.session_id == lock_waits.c.session_id)
    .where(lock_waits.c.expires_at > bindparam("now"), agent_sessions.c.status != SessionStatus.DISCONNECTED)
    .order_by(lock_waits.c.seq)
)
_SET = (column.key for column in lock_waits.c if column.key != "seq")
_ENTER = Prepared[LockWaitRow](insert(lock_waits).returning(lock_waits), *_SET)


def waiting(conn: Connection, now: str) -> list[WaitingSession]:
    """Sessions that wait, first come first, with name, type, task and parent; a session that is gone waits no more."""
    return _WAITING.all(conn, {"now": now})


def enter(conn: Connection, values: Mapping[str, Any]) -> LockWaitRow:
    """Join the queue at its end."""
    return _ENTER.one(conn, values)


def leave(conn: Connection, wait_id: str) -> bool:
    """Leave the queue; returns whether the place existed."""
    return conn.execute(delete(lock_waits).where(lock_waits.c.wait_id == wait_id)).rowcount > 0


def prolong(conn: Connection, wait_id: str, expires_at: str) -> None:
    """Keep a place in the queue until then."""
    conn.execute(update(lock_waits).where(lock_waits.c.wait_id == wait_id).values(expires_at=expires_at))


def forget(conn: Connection, before: str) -> None:
    """Remove places that were given up before an instant: their daemon was killed."""
    conn.execute(delete(lock_waits).where(lock_waits.c.expires_at < before))
