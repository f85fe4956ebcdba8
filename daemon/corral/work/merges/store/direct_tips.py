"""SQL for tips that targets got past a verification: one for each target, as long as it is not known to be green."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from corral.core.instants import iso
from corral.store.engine.fetch import fetch_first
from corral.store.engine.prepared import Prepared
from corral.store.rows.merges import DirectTipRow
from corral.store.schema_project import direct_tips

_d = direct_tips.c
_ALL = Prepared[DirectTipRow](select(direct_tips).order_by(_d.seen_at))


def listing(conn: Connection) -> dict[str, DirectTipRow]:
    """All, by target."""
    return {row["target"]: row for row in _ALL.each(conn, {})}


def of(conn: Connection, target: str) -> DirectTipRow | None:
    """That of a target."""
    return fetch_first(conn, select(direct_tips).where(_d.target == target), DirectTipRow)


def seen(conn: Connection, target: str, *, base_sha: str, tip_sha: str, whose: str, now: datetime) -> None:
    """Store that a target has this tip, of which nothing is known.

    One that follows another such tip keeps what is known of that: since when repairs are looked for, and that it was red.
    """
    values = {"tip_sha": tip_sha, "whose": whose, "tries": 0, "look_at": None}
    if conn.execute(update(direct_tips).where(_d.target == target).values(**values)).rowcount == 0:
        first = {"target": target, "base_sha": base_sha, "seen_at": iso(now), "reason": None}
        conn.execute(insert(direct_tips).values(**first, **values))


def red(conn: Connection, target: str, tip_sha: str, reason: str) -> DirectTipRow | None:
    """Store why a tip was red; None if the target has another one by now, or that was stored."""
    same = (_d.target == target, _d.tip_sha == tip_sha, _d.reason.is_distinct_from(reason))
    return fetch_first(
        conn, update(direct_tips).where(*same).values(reason=reason).returning(direct_tips), DirectTipRow
    )


def tried(conn: Connection, target: str, tip_sha: str, tries: int, look_at: str | None) -> None:
    """Store that so many verifications of a tip ended without a verdict, and when the next one may begin; None: never."""
    values = {"tries": tries, "look_at": look_at}
    conn.execute(update(direct_tips).where(_d.target == target, _d.tip_sha == tip_sha).values(**values))


def again(conn: Connection, target: str, now: datetime) -> DirectTipRow | None:
    """Have a tip verified once more, whatever was found about it; None if the target has none."""
    values = {"seen_at": iso(now), "tries": 0, "look_at": None}
    query = update(direct_tips).where(_d.target == target).values(**values)
    return fetch_first(conn, query.returning(direct_tips), DirectTipRow)


def forget(conn: Connection, target: str, tip_sha: str) -> DirectTipRow | None:
    """A tip is green, or nothing verifies it; returns what was stored, None if the target has another one by now."""
    query = delete(direct_tips).where(_d.target == target, _d.tip_sha == tip_sha)
    return fetch_first(conn, query.returning(direct_tips), DirectTipRow)
