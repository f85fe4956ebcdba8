"""SQL for the log of what happened: one row per transition, written in the transaction that made it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from corral.models.instants import iso
from corral.store.prepared import Prepared
from corral.store.schema import events

Row = dict[str, Any]

ROUTINE = ("lock.acquired", "session.changed")
"""What is recorded at every step of a session, for those who follow all: to whoever looks back it would hide the rest."""
_RECORD = Prepared(insert(events), "at", "kind", "task_id", "session_id", "merge_id", "data")


def record(
    conn: Connection,
    at: datetime | str,
    kind: str,
    *,
    task_id: str | None = None,
    session_id: str | None = None,
    merge_id: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Append one event.

    Args:
        at: When it happened; an aware datetime, or that as text (:func:`corral.models.instants.iso`).
        kind: ``<noun>.<past participle>``, such as ``task.claimed``; at most 64 characters.
        data: What else is worth knowing (JSON-serialisable).
    """
    moment = at if isinstance(at, str) else iso(at)
    about = {"task_id": task_id, "session_id": session_id, "merge_id": merge_id}
    _RECORD.change(conn, {"at": moment, "kind": kind, **about, "data": dict(data or {})})


def listing(conn: Connection, *, task_id: str | None = None, after_id: int = 0, limit: int = 200) -> list[Row]:
    """Events in the order they were recorded.

    Args:
        task_id: Only those of one task.
        after_id: Only those recorded after this ``event_id``.
        limit: At most this many.
    """
    query = select(events).where(events.c.event_id > after_id).order_by(events.c.event_id).limit(limit)
    if task_id is not None:
        query = query.where(events.c.task_id == task_id)
    return [dict(row) for row in conn.execute(query).mappings()]


def newest(conn: Connection) -> int:
    """The ``event_id`` of the last event; 0 before the first."""
    return int(conn.execute(select(func.max(events.c.event_id))).scalar() or 0)


def recent(conn: Connection, limit: int = 20) -> list[Row]:
    """The last events but those of :data:`ROUTINE`, newest first."""
    query = select(events).where(events.c.kind.not_in(ROUTINE)).order_by(events.c.event_id.desc()).limit(limit)
    return [dict(row) for row in conn.execute(query).mappings()]
