"""SQL for those who wait for a lock, in the order in which they came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from corral.models.states import SessionStatus
from corral.store.engine.fetch import fetch_all, fetch_one
from corral.store.rows.sessions import LockWaitRow, WaitingSession
from corral.store.schema import agent_sessions
from corral.store.schema_coordination import lock_waits

# Every reservation asks who came before it: built once, since building a statement costs more than running it.
_WAITING = (
    select(lock_waits, agent_sessions.c.agent_name, agent_sessions.c.current_task, agent_sessions.c.parent_session_id)
    .join(agent_sessions, agent_sessions.c.session_id == lock_waits.c.session_id)
    .where(lock_waits.c.expires_at > bindparam("now"), agent_sessions.c.status != SessionStatus.DISCONNECTED)
    .order_by(lock_waits.c.seq)
)
_ENTER = insert(lock_waits).returning(lock_waits)
_LEAVE = delete(lock_waits).where(lock_waits.c.wait_id == bindparam("wait_id"))


def waiting(conn: Connection, now: str) -> list[WaitingSession]:
    """Sessions that wait, first come first, with name, task and parent; a session that is gone waits no more."""
    # Mostly nobody does, and every reservation asks: past SQLAlchemy, whose part in it takes many times as long.
    cursor = conn.connection.cursor()
    try:
        cursor.execute("SELECT 1 FROM lock_waits LIMIT 1")
        if cursor.fetchone() is None:
            return []
    finally:
        cursor.close()
    return fetch_all(conn, _WAITING, WaitingSession, {"now": now})


def enter(conn: Connection, values: Mapping[str, Any]) -> LockWaitRow:
    """Join the queue at its end."""
    return fetch_one(conn, _ENTER, LockWaitRow, values)


def leave(conn: Connection, wait_id: str) -> bool:
    """Leave the queue; whether it was in it."""
    return conn.execute(_LEAVE, {"wait_id": wait_id}).rowcount > 0


def prolong(conn: Connection, wait_id: str, expires_at: str) -> None:
    """Keep a place in the queue until then."""
    conn.execute(update(lock_waits).where(lock_waits.c.wait_id == wait_id).values(expires_at=expires_at))


def forget(conn: Connection, before: str) -> None:
    """Remove places that were given up before an instant: their daemon was killed."""
    conn.execute(delete(lock_waits).where(lock_waits.c.expires_at < before))
