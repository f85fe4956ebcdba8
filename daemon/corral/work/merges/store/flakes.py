"""SQL for flakes: tests that failed and then passed on one tree."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from corral.core.instants import after
from corral.store.engine.fetch import fetch_all
from corral.store.rows.merges import FlakeRow, FlakeValues
from corral.store.schema import flakes

KEPT_S = 90 * 86_400
"""How long one is remembered, in seconds."""
MOST_TOLD = 10_000
"""Of the newest, how many are told of."""

_f = flakes.c


def add(conn: Connection, rows: Sequence[FlakeValues], now: datetime) -> None:
    """Remember flakes, and forget the old ones."""
    conn.execute(delete(flakes).where(_f.at < after(now, -KEPT_S)))
    conn.execute(insert(flakes), list(rows))


def are_known(conn: Connection, target: str, tests: Collection[str]) -> bool:
    """Whether each of these tests was flaky on a target; False for none."""
    if not tests:
        return False
    query = select(_f.test).where(_f.target == target, _f.test.in_(list(tests))).distinct()
    return set(conn.execute(query).scalars()) == set(tests)


def newest(conn: Connection, target: str | None = None) -> list[FlakeRow]:
    """All that are remembered, of a target or of every one, the newest first."""
    query = select(flakes).order_by(_f.flake_id.desc()).limit(MOST_TOLD)
    return fetch_all(conn, query.where(_f.target == target) if target is not None else query, FlakeRow)
