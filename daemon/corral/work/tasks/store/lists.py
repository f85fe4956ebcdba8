"""SQL for lists of tasks: with filters and orders, page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, and_, or_, select

from corral.core.states import TaskStatus
from corral.store.engine.fetch import fetch_all
from corral.store.rows import columns_of
from corral.store.rows.tasks import ListedTask, TaskRow, TaskSummary
from corral.store.schema import attempts as attempts_table
from corral.store.schema import tasks
from corral.work.tasks.store import attempts, outcomes

_ORDERS = {
    "priority": (tasks.c.priority.desc(), tasks.c.seq),
    "oldest": (tasks.c.seq,),
    "newest": (tasks.c.seq.desc(),),
}


def listing(
    conn: Connection,
    *,
    statuses: Sequence[str] = (),
    min_priority: int = 0,
    only: Mapping[str, str] | None = None,
    ids: Sequence[str] = (),
    sort: str = "priority",
    after: tuple[int, str] | None = None,
    limit: int | None = None,
) -> list[ListedTask]:
    """Tasks for a list.

    Args:
        statuses: Only tasks whose status or outcome is one of these.
        ids: Only these; none: all.
        only: Columns, and the value that each must have.
        sort: ``priority``: highest first, then oldest first; ``oldest``; ``newest``.
        after: Only those behind this priority and the task with this id.
    """
    query = select(*columns_of(tasks, TaskSummary), attempts_table.c.progress).outerjoin_from(
        tasks, attempts_table, attempts.CURRENT
    )
    query = query.order_by(*_ORDERS[sort]).limit(limit)
    if after is not None:
        priority, task_id = after
        number = select(tasks.c.seq).where(tasks.c.task_id == task_id).scalar_subquery()
        behind = tasks.c.seq < number if sort == "newest" else tasks.c.seq > number
        is_level = and_(tasks.c.priority == priority, behind)
        query = query.where(or_(tasks.c.priority < priority, is_level) if sort == "priority" else behind)
    for column, value in (only or {}).items():
        query = query.where(tasks.c[column] == value)
    if ids:
        query = query.where(tasks.c.task_id.in_(list(ids)))
    if statuses:
        query = query.where(outcomes.tasks_called(statuses))
    if min_priority:
        query = query.where(tasks.c.priority >= min_priority)
    return fetch_all(conn, query, ListedTask)


def titles(conn: Connection, task_ids: Sequence[str]) -> dict[str, str]:
    """The titles of these tasks, at most a few hundred, by id."""
    query = select(tasks.c.task_id, tasks.c.title).where(tasks.c.task_id.in_(list(task_ids)))
    return {str(task_id): str(title) for task_id, title in conn.execute(query)} if task_ids else {}


def dead(conn: Connection, *, after: str | None = None, limit: int | None = None) -> list[TaskRow]:
    """Whole rows of the dead-letter queue, oldest first; ``after``: only those behind the task with this id."""
    query = attempts.TASK_ROWS.where(tasks.c.status == TaskStatus.DEAD, tasks.c.dismissed_at.is_(None))
    if after is not None:
        query = query.where(tasks.c.seq > select(tasks.c.seq).where(tasks.c.task_id == after).scalar_subquery())
    return fetch_all(conn, query.order_by(tasks.c.seq).limit(limit), TaskRow)
