"""SQL for the pause that somebody ordered: while it lasts nothing is claimed, started or landed. It outlives every restart."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from corral.core.events import EventKind
from corral.core.instants import iso
from corral.store import events
from corral.store.engine.prepared import Prepared
from corral.store.rows.tasks import WorkPause
from corral.store.schema_project import work_pause

_CURRENT = Prepared[WorkPause](select(work_pause.c.reason, work_pause.c.since_at))


def current(conn: Connection) -> WorkPause | None:
    """The pause; None while work goes on."""
    return _CURRENT.first(conn, {})


def described(row: WorkPause) -> str:
    """The pause in one line, with what ends it."""
    why = f" ({row['reason']})" if row["reason"] else ""
    return f"All work is paused since {row['since_at']}{why}; nothing is claimed or landed until `corral resume`."


def begin(conn: Connection, reason: str | None, now: datetime) -> WorkPause:
    """Pause all work; a second call changes nothing.

    Returns:
        The pause in force.
    """
    before = current(conn)
    if before is not None:
        return before
    row: WorkPause = {"reason": reason, "since_at": iso(now)}
    conn.execute(insert(work_pause).values(id=1, **row))
    events.record(conn, now, EventKind.WORK_PAUSED({"reason": reason}))
    return row


def end(conn: Connection, now: datetime) -> bool:
    """Let work go on; whether it was paused."""
    was_paused = conn.execute(delete(work_pause)).rowcount > 0
    if was_paused:
        events.record(conn, now, EventKind.WORK_RESUMED)
    return was_paused
