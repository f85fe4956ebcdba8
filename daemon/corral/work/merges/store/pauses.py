"""SQL for targets whose verifications or landings fail for a reason that says nothing about the changes.

A row counts the failures since the last verdict on its target; from :data:`PAUSE_AFTER` on the target's queue is paused.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select, update

from corral.core.instants import iso
from corral.core.states import OPEN_MERGES
from corral.store.engine.prepared import Prepared, one_of
from corral.store.rows.merges import TargetPauseRow
from corral.store.schema import merge_requests
from corral.store.schema_project import target_pauses

PAUSE_AFTER = 3
"""Failures in a row, of whichever requests, after which a target's queue is paused."""

_p = target_pauses.c
_BUSY = select(merge_requests.c.target).where(one_of(merge_requests.c.state, OPEN_MERGES))
_PAUSED = Prepared[TargetPauseRow](
    select(target_pauses).where(_p.failures >= PAUSE_AFTER, _p.target.in_(_BUSY)).order_by(_p.since_at)
)
_ANYONE = Prepared[object](select(_p.target).limit(1))
_LATEST_LOOK = Prepared[object](select(func.max(_p.look_at)))


def failures(conn: Connection, target: str) -> int:
    """How many tries have failed on this target since the last verdict."""
    return int(conn.execute(select(_p.failures).where(_p.target == target)).scalar() or 0)


def count(conn: Connection, target: str, *, number: int, reason: str, look_at: str, now: datetime) -> None:
    """Store that the last ``number`` tries on a target failed, the last one for this reason."""
    values = {"reason": reason, "failures": number, "look_at": look_at}
    updated = conn.execute(update(target_pauses).where(_p.target == target).values(**values))
    if updated.rowcount == 0:
        conn.execute(insert(target_pauses).values(target=target, since_at=iso(now), **values))


def paused(conn: Connection) -> dict[str, TargetPauseRow]:
    """The targets that are paused and have open requests, by name."""
    return {row["target"]: row for row in _PAUSED.each(conn, {})}


def anyone(conn: Connection) -> bool:
    """Whether failures of any target are remembered."""
    return _ANYONE.any(conn, {})


def look_at_once(conn: Connection, now: datetime, target: str | None = None) -> None:
    """Have one target, or every one, looked at in the next step."""
    query = update(target_pauses).where(*([_p.target == target] if target is not None else []))
    conn.execute(query.values(look_at=iso(now)))


def bound_looks(conn: Connection, latest: str) -> None:
    """Look at no target later than at ``latest``."""
    conn.execute(update(target_pauses).where(_p.look_at > latest).values(look_at=latest))


def latest_look(conn: Connection) -> str | None:
    """When the last target is to be looked at."""
    return _LATEST_LOOK.text(conn, {})


def clear(conn: Connection, target: str) -> bool:
    """Forget the failures of a target; whether it was paused."""
    row = conn.execute(delete(target_pauses).where(_p.target == target).returning(_p.failures)).first()
    return row is not None and int(row.failures) >= PAUSE_AFTER


def idle(conn: Connection) -> list[str]:
    """The targets whose failures are remembered although no request is open for them any more."""
    return list(conn.execute(select(_p.target).where(_p.target.not_in(_BUSY))).scalars())
