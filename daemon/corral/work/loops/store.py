"""SQL for loops, and for the checkpoint that each of their iterations leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from corral.core.states import OPEN_MERGES, TERMINAL_TASKS, MergeState, TaskStatus
from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared
from corral.store.rows.loops import IterationRow, LoopRow
from corral.store.schema import merge_requests, tasks
from corral.store.schema_project import loop_iterations, loops

_BY_ID = Prepared[LoopRow](select(loops).where(loops.c.task_id == bindparam("which")))
_ITERATIONS = Prepared[IterationRow](
    select(loop_iterations).where(loop_iterations.c.task_id == bindparam("which")).order_by(loop_iterations.c.iteration)
)
_BEGIN = Prepared[None](
    update(loops).where(loops.c.task_id == bindparam("which"), loops.c.base_sha.is_(None)), "target", "base_sha"
)


def create(conn: Connection, values: Mapping[str, Any]) -> None:
    """Insert a loop."""
    conn.execute(insert(loops).values(**values))


def get(conn: Connection, task_id: str) -> LoopRow | None:
    """The loop of a task; None if that is no loop."""
    return _BY_ID.first(conn, {"which": task_id})


def with_prefix(conn: Connection, prefix: str) -> list[str]:
    """Up to three ids that start with ``prefix`` (which holds no wildcard)."""
    query = select(loops.c.task_id).where(loops.c.task_id.between(prefix, prefix + "g")).limit(3)
    return [row.task_id for row in conn.execute(query)]


def listing(conn: Connection, limit: int) -> list[LoopRow]:
    """The loops, the newest first."""
    query = select(loops).order_by(loops.c.created_at.desc(), loops.c.task_id).limit(limit)
    return fetch_all(conn, query, LoopRow)


def pending(conn: Connection) -> list[LoopRow]:
    """The loops whose next iteration has not started."""
    is_pending = tasks.c.status == TaskStatus.PENDING
    return fetch_all(conn, select(loops).join(tasks, tasks.c.task_id == loops.c.task_id).where(is_pending), LoopRow)


def is_over(conn: Connection, task_id: str, before: str) -> bool:
    """Whether nothing needs the commits of a loop any more: its task is gone, or what it made has landed, before an instant."""
    its = merge_requests.c
    row = conn.execute(select(tasks.c.status).where(tasks.c.task_id == task_id)).first()
    if row is None:
        return True
    of_task = select(its.seq).where(its.task_id == task_id)
    has_landed = (
        conn.execute(of_task.where(its.state == MergeState.LANDED, its.finished_at < before)).first() is not None
    )
    return (
        has_landed
        and row.status in TERMINAL_TASKS
        and conn.execute(of_task.where(its.state.in_(OPEN_MERGES))).first() is None
    )


def commits(conn: Connection, task_id: str) -> set[str]:
    """The commits that Corral recorded for the iterations of a loop."""
    query = select(loop_iterations.c.head_sha).where(loop_iterations.c.task_id == task_id)
    return {sha for sha in conn.execute(query).scalars() if sha is not None}


def change(conn: Connection, task_id: str, values: Mapping[str, Any]) -> None:
    """Set columns of a loop."""
    conn.execute(update(loops).where(loops.c.task_id == task_id).values(**values))


def count_anew(conn: Connection, task_id: str) -> None:
    """Its limits count from its next iteration; nothing if the task is no loop."""
    last = select(func.coalesce(func.max(loop_iterations.c.iteration), 0)).where(loop_iterations.c.task_id == task_id)
    change(conn, task_id, {"counted_from": last.scalar_subquery()})


def begin(conn: Connection, task_id: str, target: str, base_sha: str) -> None:
    """Record where the first iteration starts; nothing if that is recorded."""
    _BEGIN.change(conn, {"which": task_id, "target": target, "base_sha": base_sha})


def record(conn: Connection, values: Mapping[str, Any]) -> None:
    """Insert a completed iteration."""
    conn.execute(insert(loop_iterations).values(**values))


def iterations(conn: Connection, task_id: str) -> list[IterationRow]:
    """The completed iterations of a loop, the first one first."""
    return _ITERATIONS.all(conn, {"which": task_id})
