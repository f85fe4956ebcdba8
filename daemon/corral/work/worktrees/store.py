"""SQL for allocated worktrees: the row comes before the folder and outlives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, or_, select, update

from corral.core.states import OPEN_MERGES, MergeState, WorktreePurpose, WorktreeState
from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared, one_of
from corral.store.rows.tasks import WorktreePlace, WorktreeRow
from corral.store.schema import agent_sessions, merge_requests, worktrees

_LIVE = worktrees.c.state != WorktreeState.REMOVED
_BY_ID = Prepared[WorktreeRow](select(worktrees).where(worktrees.c.worktree_id == bindparam("which")))
_BY_NAME = Prepared[WorktreeRow](select(worktrees).where(worktrees.c.name == bindparam("name"), _LIVE))
_PORT_BASES = Prepared[object](select(worktrees.c.port_base).where(_LIVE, worktrees.c.port_base.is_not(None)))
_OF_BRANCH = select(merge_requests.c.merge_id).where(merge_requests.c.branch == bindparam("branch")).limit(1)
_SUBMITTED = Prepared[object](_OF_BRANCH)
_SUBMITTED_FOR = Prepared[object](
    _OF_BRANCH.where(or_(merge_requests.c.task_id == bindparam("task_id"), one_of(merge_requests.c.state, OPEN_MERGES)))
)
_NOTED = Prepared[WorktreeRow](
    select(worktrees)
    .where(_LIVE, worktrees.c.note.is_not(None))
    .order_by(worktrees.c.created_at, worktrees.c.name, worktrees.c.worktree_id)
)
_WORKED_IN = Prepared[WorktreePlace](
    select(worktrees.c.path, worktrees.c.branch)
    .join(agent_sessions, agent_sessions.c.session_id == worktrees.c.session_id)
    .where(agent_sessions.c.session_id == bindparam("session_id"), agent_sessions.c.worktree == worktrees.c.path)
    .where(worktrees.c.purpose == WorktreePurpose.SESSION, worktrees.c.state == WorktreeState.READY)
    .limit(1)
)


def create(conn: Connection, values: Mapping[str, Any]) -> WorktreeRow:
    """Insert a worktree; a live one of the same name or port block makes it raise ``IntegrityError``."""
    return _creation(tuple(values)).one(conn, values)


@lru_cache(maxsize=16)
def _creation(columns: tuple[str, ...]) -> Prepared[WorktreeRow]:
    return Prepared(insert(worktrees).returning(worktrees), *columns)


def get(conn: Connection, worktree_id: str) -> WorktreeRow | None:
    """One worktree by its id."""
    return _BY_ID.first(conn, {"which": worktree_id})


def live_by_name(conn: Connection, name: str) -> WorktreeRow | None:
    """The worktree of this name that is not removed."""
    return _BY_NAME.first(conn, {"name": name})


def live_of_branch(conn: Connection, branch: str) -> list[WorktreeRow]:
    """The worktrees, not removed, that were made with this very branch (short name)."""
    return fetch_all(conn, select(worktrees).where(worktrees.c.branch == branch, _LIVE), WorktreeRow)


def worked_in(conn: Connection, session_ids: Sequence[str]) -> WorktreePlace | None:
    """The worktree that was made for one of these sessions and that it is in now."""
    places = (_WORKED_IN.first(conn, {"session_id": session_id}) for session_id in session_ids)
    return next((place for place in places if place is not None), None)


def is_done_with(conn: Connection, branch: str) -> bool:
    """Whether a branch (short name) was made for a task, its worktree is gone, and what was to be merged has landed."""
    of_branch = select(worktrees.c.state, worktrees.c.purpose).where(worktrees.c.branch == branch)
    worktree_states = {(row.state, row.purpose) for row in conn.execute(of_branch)}
    requests = select(merge_requests.c.state).where(merge_requests.c.branch == branch)
    states = {row.state for row in conn.execute(requests)}
    return worktree_states == {(WorktreeState.REMOVED.value, WorktreePurpose.TASK.value)} and states <= {
        MergeState.LANDED.value
    }


def listing(conn: Connection, *, states: Sequence[str] = (), purposes: Sequence[str] = ()) -> list[WorktreeRow]:
    """Worktrees, oldest first; without ``states`` all that are not removed."""
    return _listing(tuple(states), tuple(purposes)).all(conn, {})


@lru_cache(maxsize=16)
def _listing(states: tuple[str, ...], purposes: tuple[str, ...]) -> Prepared[WorktreeRow]:
    query = select(worktrees).order_by(worktrees.c.created_at, worktrees.c.name, worktrees.c.worktree_id)
    query = query.where(one_of(worktrees.c.state, states) if states else _LIVE)
    return Prepared(query.where(one_of(worktrees.c.purpose, purposes)) if purposes else query)


def noted(conn: Connection) -> list[WorktreeRow]:
    """Worktrees that are not removed and have a note, the oldest first."""
    return _NOTED.all(conn, {})


def count_live(conn: Connection, session_id: str | None) -> int:
    """How many worktrees a session has, or (None) people have, that were asked for and not allocated to tasks."""
    asked_for = worktrees.c.purpose.in_((WorktreePurpose.SESSION, WorktreePurpose.PERSON))
    query = select(func.count()).where(asked_for, _LIVE)
    return int(conn.execute(query.where(worktrees.c.session_id == session_id)).scalar_one())


def port_bases(conn: Connection) -> set[int]:
    """The first port of every block that a live worktree has."""
    return {int(base) for base in _PORT_BASES.column(conn, {})}


def transition(
    conn: Connection, worktree_id: str, from_states: Sequence[str], values: Mapping[str, Any]
) -> WorktreeRow | None:
    """The guarded update: set columns if the worktree is in one of these states; None if it is not."""
    return _transition(tuple(from_states), tuple(values)).first(conn, {**values, "which": worktree_id})


@lru_cache(maxsize=64)
def _transition(from_states: tuple[str, ...], columns: tuple[str, ...]) -> Prepared[WorktreeRow]:
    is_there = or_(*(worktrees.c.state == bindparam(f"from_{state}", state) for state in from_states))
    mine = worktrees.c.worktree_id == bindparam("which")
    return Prepared(update(worktrees).where(mine, is_there).returning(worktrees), *columns)


def hand_over(conn: Connection, worktree_id: str, before: str | None, after: str) -> WorktreeRow | None:
    """Give a ready worktree of one session to another; None if it is not that session's any more."""
    return _HAND_OVER.first(conn, {"which": worktree_id, "before": before, "session_id": after})


_HAND_OVER = Prepared[WorktreeRow](
    update(worktrees)
    .where(
        worktrees.c.worktree_id == bindparam("which"),
        worktrees.c.session_id == bindparam("before"),
        worktrees.c.state == WorktreeState.READY,
    )
    .returning(worktrees),
    "session_id",
)


def is_submitted(conn: Connection, row: WorktreeRow) -> bool:
    """Whether a worktree's branch was given to the merge queue for its task, or is open there for whomever."""
    if row["task_id"] is None:
        return _SUBMITTED.any(conn, {"branch": row["branch"]})
    return _SUBMITTED_FOR.any(conn, {"branch": row["branch"], "task_id": row["task_id"]})
