"""SQL for targets that a person has frozen: nothing lands on them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, insert, select

from corral.core.instants import iso
from corral.store.engine.prepared import Prepared
from corral.store.rows.merges import FreezeRow
from corral.store.schema_project import target_freezes

_f = target_freezes.c
_ALL = Prepared[FreezeRow](select(target_freezes).order_by(_f.since_at))
_OF = Prepared[object](select(_f.target).where(_f.target == bindparam("target")))


def freeze(conn: Connection, target: str, *, reason: str, by: str, now: datetime) -> FreezeRow:
    """Freeze a target; one that is frozen gets the new reason."""
    thaw(conn, target)
    row: FreezeRow = {"target": target, "reason": reason, "by": by, "since_at": iso(now)}
    conn.execute(insert(target_freezes).values(**row))
    return row


def thaw(conn: Connection, target: str) -> bool:
    """Let a target move again; whether it was frozen."""
    return conn.execute(delete(target_freezes).where(_f.target == target)).rowcount > 0


def frozen(conn: Connection) -> dict[str, FreezeRow]:
    """The frozen targets by name, the longest frozen first."""
    return {row["target"]: row for row in _ALL.each(conn, {})}


def is_frozen(conn: Connection, target: str) -> bool:
    """Whether nothing may land on a target."""
    return _OF.any(conn, {"target": target})
