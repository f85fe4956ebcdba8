"""SQL for requests that have landed, and for those of them that their target has no more.

That is in no column of its own: the reason of a landed request says it (:data:`corral.work.merges.wire.LANDED_NO_MORE`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, func, or_, select, update

from corral.core.instants import iso
from corral.core.states import OPEN_MERGES, MergeState
from corral.store.engine.fetch import fetch_all, fetch_first, has_any
from corral.store.rows.merges import MergeRow
from corral.store.schema import merge_requests
from corral.work.merges.wire import LANDED_NO_MORE

RESHAPING = ("squash", "rebase")
"""Styles by which other commits land than the head."""

_m = merge_requests.c
_LANDED = _m.state == MergeState.LANDED


def targets(conn: Connection) -> dict[str, str]:
    """The targets on which anything has landed, and when that happened last."""
    query = select(_m.target, func.max(_m.finished_at)).where(_LANDED).group_by(_m.target)
    return {str(target): str(at) for target, at in conn.execute(query)}


def on(conn: Connection, target: str) -> list[MergeRow]:
    """The requests that have landed on a target, in the order of the landings."""
    query = select(merge_requests).where(_LANDED, _m.target == target)
    return fetch_all(conn, query.order_by(_m.finished_at, _m.seq), MergeRow)


def in_other_shapes(conn: Connection, target: str, heads: Sequence[str]) -> list[MergeRow]:
    """The requests with one of these heads that have landed on a target, or are about to, as other commits than the head."""
    is_other = (*_in_other_shapes(target), _m.head_sha.in_(list(heads)))
    return fetch_all(conn, select(merge_requests).where(*is_other).order_by(_m.seq), MergeRow)


def has_other_shapes(conn: Connection, target: str) -> bool:
    """Whether there is any such request."""
    return has_any(conn, select(_m.seq).where(*_in_other_shapes(target)))


def _in_other_shapes(target: str) -> tuple[ColumnElement[bool], ...]:
    return (_m.target == target, _m.style.in_(RESHAPING), or_(_LANDED, _m.state.in_(OPEN_MERGES)))


def is_landed_commit(conn: Connection, target: str, sha: str) -> bool:
    """Whether a request has landed on a target as this very commit."""
    return has_any(conn, select(_m.seq).where(_LANDED, _m.target == target, _m.landed_sha == sha))


def newest(conn: Connection, limit: int) -> list[MergeRow]:
    """The requests that landed last on whichever target."""
    query = select(merge_requests).where(_LANDED).order_by(_m.finished_at.desc(), _m.seq.desc()).limit(limit)
    return fetch_all(conn, query, MergeRow)


def last_on(conn: Connection, target: str) -> MergeRow | None:
    """The request that landed on a target last."""
    query = select(merge_requests).where(_LANDED, _m.target == target)
    return fetch_first(conn, query.order_by(_m.finished_at.desc(), _m.seq.desc()).limit(1), MergeRow)


def no_more_on(conn: Connection, target: str) -> list[MergeRow]:
    """Those of which it is stored that the target has them no more."""
    is_no_more = or_(*(_m.reason.startswith(prefix) for prefix in LANDED_NO_MORE.values()))
    return fetch_all(conn, select(merge_requests).where(_LANDED, _m.target == target, is_no_more), MergeRow)


def is_known_target(conn: Connection, target: str) -> bool:
    """Whether a target had anything to do with the queue: something landed on it, or waits to."""
    return has_any(conn, select(_m.seq).where(_m.target == target, or_(_LANDED, _m.state.in_(OPEN_MERGES))))


def explain(conn: Connection, merge_id: str, reason: str | None, now: datetime) -> MergeRow | None:
    """Say of a landed request why its target has it no more, or that it has it again (None); None if it has not landed."""
    query = update(merge_requests).where(_m.merge_id == merge_id, _LANDED).values(reason=reason, updated_at=iso(now))
    return fetch_first(conn, query.returning(merge_requests), MergeRow)
