"""Locks: who may write what.

One engine for two uses. A *reservation* is taken on purpose and holds in every checkout. An *automatic* lock comes with a
session's first edit of a file and holds in that checkout: elsewhere it is only a warning, since most merges that touch a
common file are clean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.keys import LockKey, ancestors, keys_overlap
from corral.errors import InvalidInput, LockHeld
from corral.models.identifiers import new_id
from corral.models.instants import after, iso, parse
from corral.store import events
from corral.store import locks as rows

Row = dict[str, Any]
EVERYWHERE = ""
"""The checkout of a reservation."""

MAX_TTL_S = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Holder:
    """Who asks: a session, and the sessions whose locks do not stand in its way (its own ancestors')."""

    session_id: str
    task_id: str | None = None
    kin: tuple[str, ...] = ()


def overlapping(conn: Connection, key: LockKey, holder: Holder, now: datetime) -> list[Row]:
    """Live locks of others that overlap a key, the longest lasting last."""
    found = rows.candidates(conn, key.match_key, ancestors(key.match_key), is_pattern=key.is_pattern, now=iso(now))
    others = (row for row in found if row["session_id"] != holder.session_id and row["session_id"] not in holder.kin)
    hits = [row for row in others if keys_overlap(key, _key(row))]
    return sorted(hits, key=lambda row: (row["expires_at"], row["lock_id"]))


def _key(row: Row) -> LockKey:
    return LockKey(file_path=row["file_path"], match_key=row["match_key"], is_pattern=bool(row["is_pattern"]))


def acquire(
    conn: Connection,
    keys: Sequence[LockKey],
    holder: Holder,
    now: datetime,
    *,
    ttl_s: float,
    exclusive: bool = True,
    reason: str | None = None,
) -> list[Row]:
    """Reserve several keys, all or none, in every checkout.

    Args:
        ttl_s: Seconds until they expire by themselves, 1 to 30 days' worth.
        exclusive: False: others may hold them too, as long as they also only share.

    Raises:
        LockHeld: Something overlaps what another session holds; nothing was taken.
        InvalidInput: No key, or an impossible time.
    """
    if not keys:
        raise InvalidInput("No path was given.", remedy="Name at least one path, glob or logical key.")
    if not 1 <= ttl_s <= MAX_TTL_S:
        raise InvalidInput(f"A time to live of {ttl_s:g} s is not possible.", remedy="Use 1 s to 30 days.")
    conflicts = [
        conflict(row, key, now)
        for key in keys
        for row in overlapping(conn, key, holder, now)
        if exclusive or row["exclusive"]
    ]
    if conflicts:
        first = conflicts[0]
        raise LockHeld(
            f"{first['requested']} is held by {first['holder']} until {first['expires_at']}.",
            cause=f"{first['holder']} works on {first['file_path']}" + _doing(first),
            details={"conflicts": conflicts},
        )
    return [_take(conn, key, holder, now, EVERYWHERE, ttl_s, exclusive, False, reason) for key in keys]


def hold(conn: Connection, key: LockKey, holder: Holder, checkout: str, now: datetime, *, ttl_s: float) -> Row:
    """Take or renew the automatic lock that comes with an edit. The caller has looked at :func:`overlapping`."""
    return _take(conn, key, holder, now, checkout, ttl_s, True, True, None)


def _take(
    conn: Connection,
    key: LockKey,
    holder: Holder,
    now: datetime,
    checkout: str,
    ttl_s: float,
    exclusive: bool,
    automatic: bool,
    reason: str | None,
) -> Row:
    return rows.upsert(
        conn,
        {
            "lock_id": new_id(),
            "file_path": key.file_path,
            "match_key": key.match_key,
            "is_pattern": key.is_pattern,
            "checkout": checkout,
            "session_id": holder.session_id,
            "exclusive": exclusive,
            "automatic": automatic,
            "reason": reason,
            "task_id": holder.task_id,
            "ttl_s": ttl_s,
            "acquired_at": iso(now),
            "expires_at": after(now, ttl_s),
        },
    )


def release(
    conn: Connection, keys: Sequence[LockKey], holder: Holder, now: datetime, *, by: str | None = None
) -> list[Row]:
    """Give up a session's locks on the keys (all of them if none is named); returns what was released.

    Args:
        by: Who asked for it where that was somebody else: a session's id, or the person's; for the record.
    """
    if keys:
        released = rows.release(conn, holder.session_id, [key.match_key for key in keys])
    else:
        released = rows.release_all(conn, [holder.session_id])
    if released:
        data = {"paths": [row["file_path"] for row in released], **({"by": by} if by else {})}
        events.record(conn, iso(now), "lock.released", session_id=holder.session_id, data=data)
    return released


def postpone(conn: Connection, seconds: float) -> None:
    """Move every expiry: the machine slept, or its clock was set, and nobody could renew anything meanwhile."""
    rows.reschedule(conn, lambda expires_at: after(parse(expires_at), seconds))


def expire(conn: Connection, now: datetime) -> datetime | None:
    """Remove what is over; returns when the next lock expires."""
    for row in rows.expire(conn, iso(now)):
        events.record(conn, iso(now), "lock.expired", session_id=row["session_id"], data={"path": row["file_path"]})
    upcoming = rows.next_expiry(conn)
    return parse(upcoming) if upcoming else None


def conflict(row: Row, key: LockKey, now: datetime) -> Row:
    """One overlap as it is told to whoever asked."""
    return {
        "requested": key.file_path,
        "file_path": row["file_path"],
        "holder": row["agent_name"],
        "session_id": row["session_id"],
        "task": row["current_task"],
        "task_id": row["task_id"],
        "reason": row["reason"],
        "exclusive": bool(row["exclusive"]),
        "automatic": bool(row["automatic"]),
        "checkout": row["checkout"] or None,
        "expires_at": row["expires_at"],
        "expires_in_s": max(0, round((parse(row["expires_at"]) - now).total_seconds())),
    }


def _doing(found: Row) -> str:
    return f" ({found['task'] or found['reason']})." if found["task"] or found["reason"] else "."


def wire(row: Row) -> Row:
    """A lock as every surface shows it."""
    return {
        "lock_id": row["lock_id"],
        "file_path": row["file_path"],
        "locked_by": row["agent_name"],
        "session_id": row["session_id"],
        "task_id": row["task_id"],
        "exclusive": bool(row["exclusive"]),
        "automatic": bool(row["automatic"]),
        "checkout": row["checkout"] or None,
        "reason": row["reason"],
        "acquired_at": row["acquired_at"],
        "expires_at": row["expires_at"],
    }
