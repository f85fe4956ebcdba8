"""SQL for allocated worktrees: the row comes before the folder and outlives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from corral.models.states import MergeState, WorktreePurpose, WorktreeState
from corral.store.schema import merge_requests, worktrees

Row = dict[str, Any]


def create(conn: Connection, values: Row) -> Row:
    """Insert a worktree; a live one of the same name or port block makes it raise ``IntegrityError``."""
    row = conn.execute(insert(worktrees).values(**values).returning(worktrees)).mappings().one()
    return dict(row)


def get(conn: Connection, worktree_id: str) -> Row | None:
    """One worktree by its id."""
    row = conn.execute(select(worktrees).where(worktrees.c.worktree_id == worktree_id)).mappings().first()
    return dict(row) if row else None


def live_by_name(conn: Connection, name: str) -> Row | None:
    """The worktree of this name that is not removed."""
    query = select(worktrees).where(worktrees.c.name == name, worktrees.c.state != WorktreeState.REMOVED)
    row = conn.execute(query).mappings().first()
    return dict(row) if row else None


def live_of_branch(conn: Connection, branch: str) -> list[Row]:
    """The worktrees, not removed, that were made with this very branch (short name)."""
    query = select(worktrees).where(worktrees.c.branch == branch, worktrees.c.state != WorktreeState.REMOVED)
    return [dict(row) for row in conn.execute(query).mappings()]


def is_done_with(conn: Connection, branch: str) -> bool:
    """Whether a branch (short name) was made for a task, its worktree is gone, and what was to be merged has landed."""
    made = select(worktrees.c.state, worktrees.c.purpose).where(worktrees.c.branch == branch)
    found = {(row.state, row.purpose) for row in conn.execute(made)}
    asked = select(merge_requests.c.state).where(merge_requests.c.branch == branch)
    states = {row.state for row in conn.execute(asked)}
    return found == {(WorktreeState.REMOVED.value, WorktreePurpose.TASK.value)} and states <= {MergeState.LANDED.value}


def listing(conn: Connection, *, states: Sequence[str] = (), purposes: Sequence[str] = ()) -> list[Row]:
    """Worktrees, oldest first; without ``states`` all that are not removed."""
    query = select(worktrees).order_by(worktrees.c.created_at, worktrees.c.worktree_id)
    if states:
        query = query.where(worktrees.c.state.in_(list(states)))
    else:
        query = query.where(worktrees.c.state != WorktreeState.REMOVED)
    if purposes:
        query = query.where(worktrees.c.purpose.in_(list(purposes)))
    return [dict(row) for row in conn.execute(query).mappings()]


def port_bases(conn: Connection) -> set[int]:
    """The first port of every block that a live worktree has."""
    query = select(worktrees.c.port_base).where(
        worktrees.c.state != WorktreeState.REMOVED, worktrees.c.port_base.is_not(None)
    )
    return {int(row.port_base) for row in conn.execute(query)}


def move(conn: Connection, worktree_id: str, come_from: Sequence[str], values: Row) -> Row | None:
    """The guarded update: set columns if the worktree is in one of these states; None if it is not."""
    query = update(worktrees).where(worktrees.c.worktree_id == worktree_id, worktrees.c.state.in_(come_from))
    row = conn.execute(query.values(**values).returning(worktrees)).mappings().first()
    return dict(row) if row else None


def is_submitted(conn: Connection, row: Row) -> bool:
    """Whether a worktree's branch was ever given to the merge queue."""
    query = select(merge_requests.c.merge_id).where(merge_requests.c.branch == row["branch"])
    if row["task_id"] is not None:
        query = query.where(merge_requests.c.task_id == row["task_id"])
    return conn.execute(query.limit(1)).first() is not None
