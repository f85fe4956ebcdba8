"""Locks: which session holds which files.

One engine for two uses. A *reservation* is taken on purpose and holds in every checkout. An *automatic* lock comes with a
session's first edit of a file and holds in that checkout: elsewhere it is only a warning, since most merges that touch a
common file are clean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection

from corral.coordination.locks.keys import LockKey, spellings
from corral.coordination.locks.overlaps import Overlaps
from corral.coordination.locks.queue import Ahead, conflict
from corral.coordination.locks.store import locks as lock_rows
from corral.core.errors import Conflict, InvalidInput, LimitReached, LockHeld, NotFound
from corral.core.events import EventKind
from corral.core.identifiers import ordered_id
from corral.core.instants import after, iso, parse
from corral.core.payload import Payload
from corral.store import events
from corral.store.rows.sessions import HeldLock, LockRow, LockTerms, NamedLock, RenewedLock

if TYPE_CHECKING:
    from corral.core.event_payloads import LockReleased

EVERYWHERE = ""
"""The checkout of a reservation."""

MOST_TOLD = 50
"""Blockers that an answer names for one key."""
MOST_IN_ALL = 200
"""Blockers that an answer names for all the keys of a request; beyond that it names one for each key."""
MOST_GLOBS = 1000
"""Of all sessions together."""
MOST_OF_A_SESSION = 1000
MAX_TTL_S = 30 * 24 * 3600.0


class Holder(NamedTuple):
    """The session that asks, and the sessions whose locks do not block it (its ancestors)."""

    session_id: str
    task_id: str | None = None
    kin: tuple[str, ...] = ()

    @property
    def family(self) -> tuple[str, ...]:
        """All of them."""
        return (self.session_id, *self.kin)


class LockRequest(NamedTuple):
    """Keys that a session wants to reserve.

    Attributes:
        ttl_s: Seconds until the locks expire by themselves, 1 to 30 days' worth.
        exclusive: False: others may hold the keys too, as long as they also only share.
    """

    keys: Sequence[LockKey]
    ttl_s: float
    exclusive: bool = True
    reason: str | None = None


def overlapping(conn: Connection, key: LockKey, holder: Holder, now: datetime) -> list[HeldLock]:
    """Live locks of others that overlap a key, the longest lasting last."""
    return Overlaps(conn, holder.family, now).of(key)


def meeting(conn: Connection, keys: Sequence[LockKey], now: datetime) -> Iterator[Payload]:
    """The live locks that overlap any of the keys, as answers show them, each once; an iterator that reads on demand."""
    overlaps, seen = Overlaps(conn, (), now), set[str]()
    for key in keys:
        for row in overlaps.of(key, MOST_IN_ALL):
            if row["lock_id"] not in seen:
                seen.add(row["lock_id"])
                yield wire(row)


def standing(conn: Connection, keys: Sequence[LockKey], holder: Holder, now: datetime) -> list[Payload]:
    """For each key, whether an edit of it would be free, and who holds what overlaps it; ``left_out`` where that is cut."""
    overlaps, room, answers = Overlaps(conn, holder.family, now), MOST_IN_ALL, []
    for key in keys:
        most = max(1, min(MOST_TOLD, room))
        conflicts: list[Payload] = [{**conflict(row, key, now)} for row in overlaps.of(key, most + 1)]
        cut = {"left_out": True} if len(conflicts) > most else {}
        answers.append({"file_path": key.file_path, "locked": bool(conflicts), "conflicts": conflicts[:most], **cut})
        room -= len(conflicts)
    return answers


def blockers(
    conn: Connection,
    keys: Sequence[LockKey],
    holder: Holder,
    now: datetime,
    *,
    exclusive: bool,
    before: int | None = None,
) -> dict[LockKey, list[Payload]]:
    """The blockers of a reservation: others' locks, then sessions that waited before; free keys are left out.

    Args:
        exclusive: False: what is shared stands in nobody's way.
        before: The place of the one who asks among those who wait; None: it comes now.
    """
    ahead = Ahead(conn, holder.session_id, holder.kin, now, exclusive=exclusive, before=before)
    overlaps = Overlaps(conn, holder.family, now, exclusive_only=not exclusive)
    blocking: dict[LockKey, list[Payload]] = {}
    room = MOST_IN_ALL
    for key in dict.fromkeys(keys):
        most = max(1, min(MOST_TOLD, room))
        rows: list[Payload] = [{**conflict(row, key, now)} for row in overlaps.of(key, most)]
        rows += [{**row} for row in islice(ahead.of(key), most)]
        if rows:
            blocking[key] = rows
            room -= len(rows)
    return blocking


def acquire_each(
    conn: Connection,
    lock_request: LockRequest,
    holder: Holder,
    now: datetime,
    *,
    whole: bool = False,
    before: int | None = None,
) -> tuple[list[LockRow], dict[LockKey, list[Payload]]]:
    """Reserve those of the keys that are free, each for itself, in every checkout.

    Args:
        whole: None of them unless all are free.
        before: See :func:`blockers`.

    Returns:
        The locks, and for each key that was not free what stands in its way.

    Raises:
        Conflict: More globs would be locked than every edit can be compared with.
        LimitReached: The session would have too many locks.
        InvalidInput: No key, or an impossible time.
    """
    keys = lock_request.keys
    if not keys:
        raise InvalidInput("No path was given.", remedy="Name at least one path, glob or logical key.")
    check_ttl(lock_request.ttl_s)
    refused = blockers(conn, keys, holder, now, exclusive=lock_request.exclusive, before=before)
    free = [] if whole and refused else [key for key in keys if key not in refused]
    taken = _take(conn, lock_request._replace(keys=free), holder, now, EVERYWHERE, automatic=False)
    if any(row["is_pattern"] for row in taken) and lock_rows.count_globs(conn) > MOST_GLOBS:
        raise Conflict(
            f"{MOST_GLOBS} globs are locked already.",
            cause="Every edit is compared with each of them.",
            remedy="Reserve a folder or files, or release globs: `corral lock list` shows them.",
        )
    if taken and lock_rows.has_more_than(conn, holder.session_id, MOST_OF_A_SESSION):
        raise LimitReached(
            f"A session can hold {MOST_OF_A_SESSION} locks.",
            remedy="Reserve a folder or a glob instead of its files, or release what is not needed any more.",
        )
    return list({row["lock_id"]: row for row in taken}.values()), refused


def check_ttl(ttl_s: float) -> None:
    """Refuse an impossible time to live (InvalidInput)."""
    if not 1 <= ttl_s <= MAX_TTL_S:
        raise InvalidInput(f"A time to live of {ttl_s:g} s is not possible.", remedy="Use 1 s to 30 days.")


def held(conflicts: Sequence[Payload]) -> LockHeld:
    """The refusal of a request for keys that others hold, or wait for."""
    first = conflicts[0]
    name, what = first["holder"], first["file_path"]
    if first["waiting"]:
        status, cause = f"is waited for by {name}, who came first", f"{name} is the next to have {what}"
    else:
        status, cause = f"is held by {name} until {first['expires_at']}", f"{name} works on {what}"
    return LockHeld(
        f"{first['requested']} {status}.", cause=cause + _doing(first), details={"conflicts": list(conflicts)}
    )


def hold(
    conn: Connection, keys: Sequence[LockKey], holder: Holder, checkout: str, now: datetime, *, ttl_s: float
) -> list[LockRow]:
    """Take or renew the automatic locks that come with an edit. The caller has looked at :func:`overlapping`.

    A session that holds too many gets no more of them, and its edits go on: the files are reported, and not locked.
    """
    if lock_rows.has_more_than(conn, holder.session_id, MOST_OF_A_SESSION - len(keys)):
        rows = lock_rows.named(conn, iso(now), match_keys=[key.match_key for key in keys])
        own_keys = {row["match_key"] for row in rows if row["session_id"] == holder.session_id}
        keys = [key for key in keys if key.match_key in own_keys]
    return _take(conn, LockRequest(keys, ttl_s), holder, now, checkout, automatic=True)


def _take(
    conn: Connection, lock_request: LockRequest, holder: Holder, now: datetime, checkout: str, *, automatic: bool
) -> list[LockRow]:
    """Take or renew a lock on each key; those that are new are one event."""
    at, taken, new_paths = iso(now), list[LockRow](), list[str]()
    keys, ttl_s, exclusive, reason = lock_request
    common: LockTerms = {
        "checkout": checkout,
        "session_id": holder.session_id,
        "exclusive": exclusive,
        "automatic": automatic,
        "reason": reason,
        "task_id": holder.task_id,
        "ttl_s": ttl_s,
        "acquired_at": at,
        "expires_at": after(now, ttl_s),
    }
    for key in keys:
        lock: LockRow = {
            **common,
            "lock_id": ordered_id(now),
            "file_path": key.file_path,
            "match_key": key.match_key,
            "is_pattern": key.is_pattern,
        }
        row = lock_rows.upsert(conn, lock)
        taken.append(row)
        if row["lock_id"] == lock["lock_id"]:
            new_paths.append(key.file_path)
    if new_paths:
        event = EventKind.LOCK_ACQUIRED(
            {"paths": new_paths, "exclusive": exclusive, "automatic": automatic, "checkout": checkout or None}
        )
        events.record(conn, at, event, session_id=holder.session_id)
    return taken


def renew(
    conn: Connection,
    holder: Holder,
    now: datetime,
    *,
    extend_s: float,
    keys: Sequence[LockKey] = (),
    lock_ids: Sequence[str] = (),
    whole: bool = False,
) -> list[RenewedLock]:
    """Let a session's reservations last longer: those on the keys and with the ids, or all of them if none is named.

    Args:
        extend_s: Seconds from when they expire now; nothing lasts longer than 30 days from now.
        whole: None of them unless all that were named are there (NotFound).

    Returns:
        The locks as they are now, each with ``old_expires_at``.
    """
    check_ttl(extend_s)
    rows: Sequence[HeldLock]
    if keys or lock_ids:
        rows = lock_rows.named(
            conn, iso(now), match_keys=[spelling for key in keys for spelling in spellings(key)], lock_ids=lock_ids
        )
    else:
        rows = lock_rows.listing(conn, iso(now), [holder.session_id])
    mine = [row for row in rows if row["session_id"] == holder.session_id and not row["automatic"]]
    held_keys = {row["match_key"] for row in mine}
    missing = [key.file_path for key in keys if held_keys.isdisjoint(spellings(key))]
    if whole and missing:
        raise NotFound(
            f"You hold no reservation of {missing[0]}.",
            cause="You never reserved it, or that was released or has expired.",
            remedy="Acquire it; `corral lock list` shows all.",
        )
    latest, renewed = after(now, MAX_TTL_S), list[RenewedLock]()
    for row in mine:
        expires_at = max(row["expires_at"], min(latest, after(parse(row["expires_at"]), extend_s)))
        renewed.append({**row, "expires_at": expires_at, "old_expires_at": row["expires_at"]})
    lock_rows.prolong(conn, {row["lock_id"]: row["expires_at"] for row in renewed})
    return renewed


def release(
    conn: Connection,
    keys: Sequence[LockKey],
    holder: Holder,
    now: datetime,
    *,
    by: str | None = None,
    lock_ids: Sequence[str] = (),
) -> list[LockRow]:
    """Give up a session's locks on the keys and with the ids (all of them if none is named); returns what was released.

    Args:
        by: The session that asked for it, if another (or the person's); for the record.
    """
    if keys or lock_ids:
        released = lock_rows.release(conn, holder.session_id, map(spellings, keys))
        named = lock_rows.named(conn, iso(now), lock_ids=lock_ids) if lock_ids else []
        mine = [row["lock_id"] for row in named if row["session_id"] == holder.session_id]
        released += lock_rows.release_these(conn, mine) if mine else []
    else:
        released = lock_rows.release_all(conn, [holder.session_id])
    if released:
        data: LockReleased = {"paths": [row["file_path"] for row in released]}
        if by:
            data["by"] = by
        events.record(conn, iso(now), EventKind.LOCK_RELEASED(data), session_id=holder.session_id)
    return released


def postpone(conn: Connection, seconds: float) -> None:
    """Move every expiry: the machine slept, or its clock was set, and nobody could renew anything meanwhile."""
    lock_rows.reschedule(conn, lambda expires_at: after(parse(expires_at), seconds))


def expire(conn: Connection, now: datetime) -> datetime | None:
    """Remove what is over; returns when the next lock expires."""
    for row in lock_rows.expire(conn, iso(now)):
        expired = EventKind.LOCK_EXPIRED({"path": row["file_path"]})
        events.record(conn, iso(now), expired, session_id=row["session_id"])
    upcoming = lock_rows.next_expiry(conn)
    return parse(upcoming) if upcoming else None


def _doing(row: Payload) -> str:
    return f" ({row['task'] or row['reason']})." if row["task"] or row["reason"] else "."


def cursor(row: Payload) -> str:
    """Where a lock stands in the list of all, the oldest first; for :func:`listing`."""
    return f"{row['acquired_at']},{row['lock_id']}"


def listing(conn: Connection, now: datetime, *, after: str | None, limit: int) -> list[Payload]:
    """So many live locks, as they are shown, the oldest first.

    Args:
        after: Only those behind this :func:`cursor`.

    Raises:
        InvalidInput: ``after`` is none.
    """
    acquired_at, comma, lock_id = (after or "").partition(",")
    if after and not comma:
        raise InvalidInput(f"{after[:80]!r} is an invalid cursor.", remedy="Take it from the answer before.")
    behind = (acquired_at, lock_id) if after else None
    return [wire(row) for row in lock_rows.listing(conn, iso(now), after=behind, limit=limit)]


def wire(row: NamedLock) -> Payload:
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
