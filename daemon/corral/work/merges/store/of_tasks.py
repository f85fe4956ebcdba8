"""SQL for how tasks and merge requests belong together: whose request it is, and which request of a task counts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, case, literal, or_, select, update
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from corral.core.errors import InvalidInput, NotFound
from corral.core.states import OPEN_MERGES, RETURNED_MERGES, MergeState
from corral.store.engine.prepared import Prepared
from corral.store.rows.merges import MergeRow
from corral.store.schema import agent_sessions, attempts, merge_requests, tasks, worktrees
from corral.work.merges.store import merges
from corral.work.merges.wire import LANDED_NO_MORE

_m = merge_requests.c
_NUMBER = re.compile(r"#?([1-9][0-9]{0,8})")
_PREFIX = 4
"""The fewest characters of a task's id that name it."""


def decisive_first(of: ReadOnlyColumnCollection[str, Any] = _m) -> tuple[ColumnElement[Any], ...]:
    """The order in which the first request of a task is the one that counts.

    An open one comes first: a task with an open request has not landed. Then the newest; superseded ones come last.

    Args:
        of: The columns of the merge requests, or of an alias of them.
    """
    rank = case(
        (or_(*(of.state == state for state in OPEN_MERGES)), 0), (of.state == MergeState.SUPERSEDED, 2), else_=1
    )
    return (rank, of.seq.desc())


def standing(of: ReadOnlyColumnCollection[str, Any] = _m) -> ColumnElement[Any]:
    """As :func:`corral.work.merges.wire.standing_of` has it, in SQL."""
    landed = of.state == MergeState.LANDED
    # A reason is compared where it can be one of these only: most requests that landed have none.
    no_more = [
        (and_(landed, of.reason.startswith(prefix)), literal(str(state))) for state, prefix in LANDED_NO_MORE.items()
    ]
    return case(*no_more, else_=of.state)


def of_decisive(column: ColumnElement[Any]) -> Select[Any]:
    """A column of the request that counts, for a query over :data:`corral.store.schema.tasks`."""
    query = select(column).where(_m.task_id == tasks.c.task_id).order_by(*decisive_first())
    return query.limit(1)


def decisive(conn: Connection, task_id: str) -> MergeRow | None:
    """The task's request that counts; None where nothing of it was to be merged."""
    return _decisive().first(conn, {"task_id": task_id})


@cache
def _decisive() -> Prepared[MergeRow]:
    query = select(merge_requests).where(_m.task_id == bindparam("task_id"))
    return Prepared(query.order_by(*decisive_first()).limit(1))


def named(conn: Connection, name: str) -> MergeRow:
    """The merge request that a text names: its id, the beginning of it, or the id or number of its task.

    Raises:
        NotFound: None is named so.
        InvalidInput: Several are.
    """
    if is_number(name) and (row := _of_task(conn, name)):
        return row
    try:
        return merges.get(conn, name)
    except NotFound:
        row = _of_task(conn, name)
        if row is None:
            raise
        return row


def is_number(name: str) -> bool:
    """Whether a text is rather a task's number than the beginning of an id: ``12``, ``#12345``."""
    return _NUMBER.fullmatch(name) is not None and (name.startswith("#") or len(name) < _PREFIX)


def _of_task(conn: Connection, name: str) -> MergeRow | None:
    """The request that counts of the task with this number, id or beginning of an id."""
    number = _NUMBER.fullmatch(name)
    is_named = tasks.c.seq == (int(number[1]) if number else 0)
    if len(name) >= _PREFIX:
        is_named = or_(is_named, tasks.c.task_id.startswith(name.lower(), autoescape=True))
    task_ids = [str(task_id) for task_id in conn.execute(select(tasks.c.task_id).where(is_named).limit(2)).scalars()]
    if len(task_ids) > 1:
        raise InvalidInput(f"Several tasks are named {name[:80]!r}.", remedy="Give more of the id.")
    return decisive(conn, task_ids[0]) if task_ids else None


def tasks_of(conn: Connection, prefix: str) -> list[str]:
    """Up to three ids of tasks whose merge requests' ids begin with ``prefix`` (which holds no wildcard)."""
    query = (
        select(_m.task_id).where(_m.merge_id.between(prefix, prefix + "g"), _m.task_id.is_not(None)).distinct().limit(3)
    )
    return [str(task_id) for task_id in conn.execute(query).scalars()]


def numbers(conn: Connection, task_ids: Iterable[str]) -> dict[str, int]:
    """The numbers of tasks by their ids."""
    query = select(tasks.c.task_id, tasks.c.seq).where(tasks.c.task_id.in_([*task_ids]))
    return {str(task_id): int(number) for task_id, number in conn.execute(query)}


def give_up(conn: Connection, task_id: str, before: str, now: str, reason: str) -> list[str]:
    """Cancel a task's requests that came back, and let them belong to no task; their branches stay.

    Args:
        before: Only those made until then.

    Returns:
        The ids of those that came back; one that was cancelled already only ceases to be the task's.
    """
    earlier = (_m.task_id == task_id, _m.created_at <= before)
    gone = {"state": MergeState.CANCELLED.value, "reason": reason, "updated_at": now, "task_id": None}
    returned = update(merge_requests).where(*earlier, _m.state.in_(RETURNED_MERGES)).values(gone)
    merge_ids = [str(merge_id) for merge_id in conn.execute(returned.returning(_m.merge_id)).scalars()]
    conn.execute(update(merge_requests).where(*earlier, _m.state == MergeState.CANCELLED).values(task_id=None))
    return merge_ids


def owners(conn: Connection, branch: str, session_id: str | None) -> list[str]:
    """The tasks that a request to merge a branch may belong to, from the best evidence that there is.

    The worktree that the branch was made for belongs to a task, or to a session at work on one; else a task had this branch
    before; else the session that asks works on it.

    Args:
        branch: Short name.
        session_id: The session that asks; None: unknown.

    Returns:
        One id where it is clear; several where the session holds several tasks; none where there is no evidence.
    """
    of_branch = select(worktrees.c.task_id, worktrees.c.session_id).where(worktrees.c.branch == branch)
    rows = conn.execute(of_branch.order_by(worktrees.c.created_at.desc())).all()
    of_worktree = next((row.task_id for row in rows if row.task_id is not None), None)
    if of_worktree is not None:
        return [of_worktree]
    for row in rows:
        if row.session_id is not None and (held := _held_by(conn, row.session_id)):
            return held
    named = (
        select(attempts.c.task_id).where(attempts.c.branch == branch).order_by(attempts.c.claimed_at.desc()).limit(1)
    )
    earlier = select(_m.task_id).where(_m.branch == branch, _m.task_id.is_not(None)).order_by(_m.seq.desc()).limit(1)
    for query in (named, earlier):
        if (task_id := conn.execute(query).scalar()) is not None:
            return [str(task_id)]
    return _held_by(conn, session_id) if session_id is not None else []


def _held_by(conn: Connection, session_id: str) -> list[str]:
    """The tasks that a session or its parent works on: as a worker, or because it claimed them."""
    me = select(agent_sessions.c.task_id, agent_sessions.c.parent_session_id).where(
        agent_sessions.c.session_id == session_id
    )
    row = conn.execute(me).first()
    if row is not None and row.task_id is not None:
        return [str(row.task_id)]
    parent = row.parent_session_id if row is not None else None
    mine = or_(attempts.c.session_id == session_id, attempts.c.session_id == parent)
    running = (
        select(tasks.c.task_id)
        .join(attempts, attempts.c.task_id == tasks.c.task_id)
        .where(attempts.c.ended_at.is_(None), mine)
        .order_by(tasks.c.seq)
    )
    task_ids = [str(task_id) for task_id in conn.execute(running).scalars()]
    if task_ids or parent is None:
        return task_ids
    return _held_by(conn, parent)
