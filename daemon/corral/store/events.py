"""SQL for the log of what happened: one row per transition, written in the transaction that made it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Integer, bindparam, delete, func, insert, or_, select, update

from corral.core.events import Event, EventKind, Kind
from corral.core.instants import iso
from corral.core.redaction import without_secrets
from corral.store import totals
from corral.store.engine.fetch import fetch_all, fetch_first
from corral.store.engine.prepared import Prepared
from corral.store.rows.records import EventRow
from corral.store.schema import events
from corral.store.schema_coordination import event_cursors

if TYPE_CHECKING:
    from corral.core.event_payloads import Nothing

ROUTINE = (EventKind.LOCK_ACQUIRED, EventKind.SESSION_CHANGED)
"""Kinds recorded at every step of a session, for followers of all events; in a list of past events they would hide the rest."""
_e = events.c

_RECENT = Prepared[EventRow](
    select(events)
    .where(*(events.c.kind != str(kind) for kind in ROUTINE))
    .order_by(events.c.event_id.desc())
    .limit(bindparam("most", type_=Integer))
)
_RECORD = Prepared[None](insert(events), "at", "kind", "task_id", "session_id", "merge_id", "data")

_FOLLOWING = Prepared[EventRow](
    select(events)
    .where(events.c.event_id > bindparam("after"))
    .order_by(events.c.event_id)
    .limit(bindparam("most", type_=Integer))
)
_POSITION = Prepared[object](select(event_cursors.c.event_id).where(event_cursors.c.reader == bindparam("reader")))
_MOVE = Prepared[None](update(event_cursors).where(event_cursors.c.reader == bindparam("which")), "event_id")
_NEWEST = Prepared[object](select(func.max(events.c.event_id)))


def record(
    conn: Connection,
    at: datetime | str,
    event: Event | Kind[Nothing],
    *,
    task_id: str | None = None,
    session_id: str | None = None,
    merge_id: str | None = None,
) -> None:
    """Append one event, without the secrets that its data may hold: it is sent to followers, logged and exported.

    Args:
        at: When it happened; an aware datetime, or that as text (:func:`corral.core.instants.iso`).
        event: A kind with its payload (:class:`corral.core.events.EventKind`); without one where it has none.
    """
    kind, data = event if isinstance(event, Event) else event({})
    values = {
        "at": at if isinstance(at, str) else iso(at),
        "kind": str(kind),
        "task_id": task_id,
        "session_id": session_id,
        "merge_id": merge_id,
        "data": without_secrets(data),
    }
    _RECORD.change(conn, values)
    totals.count_event(conn, str(kind))


def listing(conn: Connection, *, task_id: str | None = None, after_id: int = 0, limit: int = 200) -> list[EventRow]:
    """Events in the order they were recorded.

    Args:
        task_id: Only those of one task.
        after_id: Only those recorded after this ``event_id``.
        limit: At most this many.
    """
    if task_id is None:
        return _FOLLOWING.all(conn, {"after": after_id, "most": limit})
    query = select(events).where(_e.event_id > after_id, _e.task_id == task_id).order_by(_e.event_id).limit(limit)
    return fetch_all(conn, query, EventRow)


def others_than(kinds: Collection[object]) -> Prepared[EventRow]:
    """A statement for the events behind ``after``, at most ``most``, in order, of all kinds but these of ``EventKind``."""
    conditions = (_e.kind != str(kind) for kind in kinds)
    query = select(events).where(_e.event_id > bindparam("after"), *conditions).order_by(_e.event_id)
    return Prepared[EventRow](query.limit(bindparam("most", type_=Integer)))


def of_kinds(kinds: Collection[object]) -> Prepared[EventRow]:
    """A statement for the events behind ``after``, at most ``most``, in order, of these kinds of ``EventKind`` only."""
    query = select(events).where(_e.event_id > bindparam("after"), or_(*(_e.kind == str(kind) for kind in kinds)))
    return Prepared[EventRow](query.order_by(_e.event_id).limit(bindparam("most", type_=Integer)))


def following(conn: Connection, statement: Prepared[EventRow], after: int, most: int) -> tuple[list[EventRow], int]:
    """The next events by a statement, at most ``most``, and the event up to which it has no others; in one transaction."""
    known = max(newest(conn), after)
    page = statement.all(conn, {"after": after, "most": most})
    reached = page[-1]["event_id"] if page else known
    return page, reached if len(page) == most else max(known, reached)


def of_task(conn: Connection, task_id: str, limit: int = 200) -> list[EventRow]:
    """The last events of a task, oldest first."""
    query = select(events).where(events.c.task_id == task_id).order_by(events.c.event_id.desc()).limit(limit)
    return fetch_all(conn, query, EventRow)[::-1]


def newest(conn: Connection) -> int:
    """The ``event_id`` of the last event; 0 before the first."""
    return int(_NEWEST.scalar(conn, {}) or 0)


def recent(conn: Connection, limit: int = 20) -> list[EventRow]:
    """The last events but those of :data:`ROUTINE`, newest first."""
    return _RECENT.all(conn, {"most": limit})


def newest_of(conn: Connection, kind: Kind[Any]) -> EventRow | None:
    """The last event of a kind; reads all events where there is none."""
    query = select(events).where(events.c.kind == str(kind)).order_by(events.c.event_id.desc()).limit(1)
    return fetch_first(conn, query, EventRow)


def position(conn: Connection, reader: str) -> int | None:
    """The ``event_id`` up to which a reader has handled the events; None if it never stored one."""
    event_id = _POSITION.scalar(conn, {"reader": reader})
    return None if event_id is None else int(event_id)


def move_position(conn: Connection, reader: str, event_id: int) -> None:
    """Store that a reader has handled every event up to this one."""
    if _MOVE.change(conn, {"which": reader, "event_id": event_id}) == 0:
        conn.execute(insert(event_cursors).values(reader=reader, event_id=event_id))


def forget_position(conn: Connection, reader: str) -> None:
    """Delete the position of a reader, so that it holds back no deletion; a position stored later is its new beginning."""
    conn.execute(delete(event_cursors).where(event_cursors.c.reader == reader))
