"""SQL for merge requests whose branches were begun on the work of other tasks before that had landed."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from corral.core.states import OPEN_MERGES
from corral.store.engine.fetch import fetch_first
from corral.store.engine.prepared import Prepared, one_of
from corral.store.rows.merges import BegunAt, StackedMerge, WaitedFor
from corral.store.rows.tasks import WorktreeRow
from corral.store.schema import attempts, merge_requests, task_dependencies, worktrees

_m = merge_requests.c
_OPEN = Prepared[StackedMerge](
    select(_m.merge_id, worktrees.c.stacked_on)
    .join(worktrees, worktrees.c.branch == _m.branch)
    .where(worktrees.c.stacked_on.is_not(None), _m.target == bindparam("target"), one_of(_m.state, OPEN_MERGES))
    .order_by(worktrees.c.created_at)
)

_WAITED_FOR = Prepared[WaitedFor](
    select(_m.merge_id, task_dependencies.c.depends_on)
    .join(task_dependencies, task_dependencies.c.task_id == _m.task_id)
    .where(_m.target == bindparam("target"), one_of(_m.state, OPEN_MERGES))
)


def waited_for(conn: Connection, target: str) -> dict[str, list[str]]:
    """By the id of an open request of a target the tasks that its own one waits for, or waited."""
    tasks: dict[str, list[str]] = {}
    for row in _WAITED_FOR.each(conn, {"target": target}):
        tasks.setdefault(row["merge_id"], []).append(row["depends_on"])
    return tasks


def open_of(conn: Connection, target: str) -> dict[str, dict[str, str]]:
    """By the id of an open request of a target the tasks that its branch was begun on, each with the head of its work then."""
    return {row["merge_id"]: row["stacked_on"] or {} for row in _OPEN.each(conn, {"target": target})}


def begun(conn: Connection, branch: str) -> WorktreeRow | None:
    """The worktree in which a branch was begun on the work of others, whether it is still there or not."""
    query = select(worktrees).where(worktrees.c.branch == branch, worktrees.c.stacked_on.is_not(None))
    return fetch_first(conn, query.order_by(worktrees.c.created_at.desc()).limit(1), WorktreeRow)


_BEGUN_AT = Prepared[BegunAt](
    select(attempts.c.base_sha)
    .where(attempts.c.task_id == bindparam("task_id"), attempts.c.branch == bindparam("branch"))
    .order_by(attempts.c.number.desc())
    .limit(1)
)


def begun_at(conn: Connection, task_id: str | None, branch: str) -> str | None:
    """The commit that the worker of a task began a branch at; None: it began none of that name."""
    row = _BEGUN_AT.first(conn, {"task_id": task_id, "branch": branch})
    return row and row["base_sha"]


_UNBUILT = Prepared[object](
    select(_m.merge_id)
    .join(worktrees, worktrees.c.branch == _m.branch)
    .where(worktrees.c.stacked_on.is_not(None), _m.candidate_sha.is_(None), one_of(_m.state, OPEN_MERGES))
    .limit(1)
)


def is_any_unbuilt(conn: Connection) -> bool:
    """Whether a request that was begun on the work of others waits to be built."""
    return _UNBUILT.any(conn, {})
