"""SQL for flakes: tests that failed and then passed on one tree."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection, case, delete, func, insert, select

from corral.core.instants import after
from corral.core.states import ReceiptStatus
from corral.store.engine.fetch import fetch_all
from corral.store.rows.merges import FlakeRow, FlakeValues
from corral.store.schema import flakes, receipts, verification_runs

KEPT_S = 90 * 86_400
"""How long one is remembered, in seconds."""
MOST_TOLD = 10_000
"""Of the newest, how many are told of."""
MOST_JUDGED = 1_000
"""Of the newest verifications, among how many the flaky ones are counted."""

_f, _r = flakes.c, verification_runs.c


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


def shares(conn: Connection, since: str) -> dict[str, tuple[int, int]]:
    """By target, of how many green verifications since an instant the tree was red before, and of how many in all."""
    was_red, newest_run = _r.tree.in_(select(_f.tree)), select(func.max(_r.run_id)).scalar_subquery()
    query = (
        select(_r.target, func.sum(case((was_red, 1), else_=0)), func.count())
        .join_from(verification_runs, receipts, _r.receipt_id == receipts.c.receipt_id)
        .where(_r.run_id > newest_run - MOST_JUDGED, _r.ended_at > since, receipts.c.status == ReceiptStatus.PASSED)
        .group_by(_r.target)
    )
    return {str(target): (int(flaky), int(green)) for target, flaky, green in conn.execute(query)}


def newest(conn: Connection, target: str | None = None) -> list[FlakeRow]:
    """All that are remembered, of a target or of every one, the newest first."""
    query = select(flakes).order_by(_f.flake_id.desc()).limit(MOST_TOLD)
    return fetch_all(conn, query.where(_f.target == target) if target is not None else query, FlakeRow)
