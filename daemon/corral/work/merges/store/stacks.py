"""SQL for merge requests whose branches were begun on the work of other tasks before that had landed."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from corral.core.states import OPEN_MERGES
from corral.store.engine.prepared import Prepared, one_of
from corral.store.rows.merges import StackedMerge
from corral.store.schema import merge_requests, worktrees

_m = merge_requests.c
_OPEN = Prepared[StackedMerge](
    select(_m.merge_id, worktrees.c.stacked_on)
    .join(worktrees, worktrees.c.branch == _m.branch)
    .where(worktrees.c.stacked_on.is_not(None), _m.target == bindparam("target"), one_of(_m.state, OPEN_MERGES))
    .order_by(worktrees.c.created_at)
)


def open_of(conn: Connection, target: str) -> dict[str, dict[str, str]]:
    """By the id of an open request of a target the tasks that its branch was begun on, each with the head of its work then."""
    return {row["merge_id"]: row["stacked_on"] or {} for row in _OPEN.each(conn, {"target": target})}
