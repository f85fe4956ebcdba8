"""Waiting for locks: join the queue, take what was asked for when it is free, leave.

Waiting itself is done by the server, with a connection and a clock; here are the changes of the rows. See
:mod:`corral.coordination.locks.queue` for the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.locks import table as lock_table
from corral.coordination.locks.keys import reach, stored_key
from corral.coordination.locks.queue import find_deadlock
from corral.coordination.locks.store import waits as lock_wait_rows
from corral.coordination.locks.table import Holder, LockRequest
from corral.coordination.sessions.registry import kin_of
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import Conflict, InvalidInput, LockHeld
from corral.core.events import EventKind
from corral.core.identifiers import new_id
from corral.core.instants import after, iso, parse
from corral.core.payload import Payload
from corral.core.visible import embedded
from corral.store import events
from corral.store.rows.sessions import LockRow, WaitingSession

PLACE_S = 60.0
"""How long a place in the queue lasts without a heartbeat: places of a killed daemon soon block nobody."""
FORGOTTEN_S = 3600.0
"""After so long a place is removed, even if the machine slept."""


@dataclass(frozen=True)
class Wait:
    """A place in the queue."""

    wait_id: str
    seq: int
    holder: Holder
    lock_request: LockRequest


def enter(conn: Connection, lock_request: LockRequest, holder: Holder, now: datetime) -> Wait:
    """Join the queue, and notify the holders once. :func:`stay` keeps the place.

    Raises:
        LockHeld: The session would wait for itself, by way of others; ``details['circle']`` names them.
        InvalidInput: More than one glob that may mean anything, anywhere.
    """
    anywhere = [key.file_path for key in lock_request.keys if not reach(key)]
    if len(anywhere) > 1:
        raise InvalidInput(
            f"{len(anywhere)} globs that begin with a wildcard are too many to wait for.",
            cause="Each is compared with every lock whenever anybody's turn is decided; one is taken.",
            remedy="Begin them with a folder, or wait for one glob that covers them.",
        )
    lock_wait_rows.forget(conn, after(now, -FORGOTTEN_S))
    row = lock_wait_rows.enter(
        conn,
        {
            "wait_id": new_id(),
            "session_id": holder.session_id,
            "keys": [vars(key) for key in lock_request.keys],
            "exclusive": lock_request.exclusive,
            "ttl_s": lock_request.ttl_s,
            "reason": lock_request.reason,
            "created_at": iso(now),
            "expires_at": after(now, PLACE_S),
        },
    )
    wait = Wait(row["wait_id"], row["seq"], holder, lock_request)
    blocking = blockers(conn, wait, now)
    _refuse_deadlock(conn, wait, now)
    asker = session_rows.get(conn, holder.session_id)
    name = asker["agent_name"] if asker is not None else None
    paths = [key.file_path for key in lock_request.keys]
    events.record(conn, iso(now), EventKind.LOCK_AWAITED({"paths": paths}), session_id=holder.session_id)
    for conflict in {conflict["session_id"]: conflict for conflict in blocking if not conflict["waiting"]}.values():
        what = f" ({embedded(lock_request.reason)})" if lock_request.reason else ""
        requested, held = embedded(conflict["requested"]), embedded(conflict["file_path"])
        text = f"{name} waits for {requested}{what}, which you hold. Release {held} when you can."
        session_rows.notify(conn, conflict["session_id"], text, iso(now))
    return wait


def blockers(conn: Connection, wait: Wait, now: datetime) -> list[Payload]:
    """The blockers of a session that waits, as :func:`corral.coordination.locks.queue.conflict` shows them."""
    lock_request = wait.lock_request
    by_key = lock_table.blockers(
        conn, lock_request.keys, wait.holder, now, exclusive=lock_request.exclusive, before=wait.seq
    )
    return [row for of_key in by_key.values() for row in of_key]


def next_expiry(blocking: Sequence[Payload]) -> datetime | None:
    """When the first of the blocking locks expires."""
    return min((parse(row["expires_at"]) for row in blocking if not row["waiting"]), default=None)


def take(conn: Connection, wait: Wait, now: datetime) -> list[LockRow] | None:
    """Take all the keys of the wait, and end it, if nothing blocks them; None otherwise.

    Raises:
        Conflict: The session has ended.
    """
    _alive(conn, wait, now)
    taken, refused = lock_table.acquire_each(conn, wait.lock_request, wait.holder, now, whole=True, before=wait.seq)
    if refused:
        return None
    lock_wait_rows.leave(conn, wait.wait_id)
    return taken


def stay(conn: Connection, wait: Wait, now: datetime) -> None:
    """Keep a place in the queue, and record a heartbeat of the session, which does nothing else meanwhile.

    Raises:
        Conflict: The session has ended.
        LockHeld: An edit completed a deadlock since; see :func:`enter`.
    """
    _alive(conn, wait, now)
    lock_wait_rows.prolong(conn, wait.wait_id, after(now, PLACE_S))
    _refuse_deadlock(conn, wait, now)


def _alive(conn: Connection, wait: Wait, now: datetime) -> None:
    if session_rows.touch(conn, wait.holder.session_id, iso(now)) is None:
        raise Conflict("The session ended while it waited for a lock.", cause="It was ended, or given up as dead.")


def leave(conn: Connection, wait: Wait) -> None:
    """End the wait; idempotent."""
    lock_wait_rows.leave(conn, wait.wait_id)


def _refuse_deadlock(conn: Connection, wait: Wait, now: datetime) -> None:
    """Raise LockHeld in a deadlock, if this session was the last of it to begin waiting."""
    waits = lock_wait_rows.waiting(conn, iso(now))

    def ways(session_id: str) -> list[Payload]:
        # Read on demand: most holders wait for nothing.
        rows = [row for row in waits if row["session_id"] == session_id]
        return [{**blocker, "who": row["agent_name"]} for row in rows for blocker in blockers(conn, _stored(row), now)]

    deadlock = find_deadlock(wait.holder.session_id, ways)
    members = {blocker["session_id"] for blocker in deadlock}
    if not deadlock or any(row["seq"] > wait.seq and row["session_id"] in members for row in waits):
        return
    hops = [
        {"agent_name": blocker["who"], "waits_for": blocker["requested"], "held_by": blocker["holder"]}
        for blocker in deadlock
    ]
    chain = ", ".join(f"{hop['agent_name']} waits for {hop['waits_for']} of {hop['held_by']}" for hop in hops)
    raise LockHeld(
        f"Waiting for {hops[0]['waits_for']} would never end.",
        cause=f"{chain}.",
        remedy=f"Release what {hops[-1]['agent_name']} waits for, then ask again; or ask for all of it at once.",
        details={"conflicts": deadlock, "circle": hops},
    )


def _stored(row: WaitingSession) -> Wait:
    lock_request = LockRequest(
        tuple(stored_key(key) for key in row["keys"]), row["ttl_s"], row["exclusive"], row["reason"]
    )
    return Wait(row["wait_id"], row["seq"], Holder(row["session_id"], kin=kin_of(row)), lock_request)
