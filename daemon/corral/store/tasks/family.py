"""SQL for leaders and followers among tasks."""

from __future__ import annotations

from sqlalchemy import Connection, select

from corral.models.states import TERMINAL_TASKS, TaskStatus
from corral.store.engine.fetch import fetch_all
from corral.store.rows.tasks import StoredTask, TaskRow
from corral.store.schema import tasks
from corral.store.tasks import attempts
from corral.store.tasks.tasks import OPEN

_MOST_LEVELS = 64


def ancestors(conn: Connection, task_id: str) -> list[str]:
    """The tasks that lead a task, the nearest first."""
    found: list[str] = []
    parent: str | None = task_id
    while parent is not None and len(found) < _MOST_LEVELS:
        parent = conn.execute(select(tasks.c.parent_task_id).where(tasks.c.task_id == parent)).scalar()
        found += [parent] if parent is not None else []
    return found


def children(conn: Connection, task_id: str) -> list[str]:
    """The tasks that a task leads, the oldest first."""
    return list(
        conn.execute(select(tasks.c.task_id).where(tasks.c.parent_task_id == task_id).order_by(tasks.c.seq)).scalars()
    )


def combined(conn: Connection) -> list[TaskRow]:
    """Whole rows of the tasks that wait for their members, the oldest first."""
    query = attempts.TASK_ROWS.where(tasks.c.status == TaskStatus.WAITING, tasks.c.combine.is_not(None))
    return fetch_all(conn, query.order_by(tasks.c.seq), TaskRow)


def members(conn: Connection, task_id: str, number: int) -> list[TaskRow]:
    """Whole rows of the ``number`` tasks that do a task together, the oldest first."""
    keys = [member_key(task_id, one) for one in range(1, number + 1)]
    query = attempts.TASK_ROWS.where(tasks.c.idempotency_key.in_(keys)).order_by(tasks.c.seq)
    return fetch_all(conn, query, TaskRow)


def member_key(task_id: str, number: int) -> str:
    """The idempotency key of a task's member."""
    return f"member:{task_id}:{number}"


def leaderless(conn: Connection) -> list[StoredTask]:
    """Open tasks of a leader that has ended, and whose cancellation was not asked for."""
    leader = tasks.alias("leader")
    query = (
        select(tasks)
        .join(leader, leader.c.task_id == tasks.c.parent_task_id)
        .where(tasks.c.parent_task_id.is_not(None), tasks.c.status.in_(OPEN), tasks.c.cancel_reason.is_(None))
        .where(leader.c.status.in_(TERMINAL_TASKS))
        .order_by(tasks.c.seq)
    )
    return fetch_all(conn, query, StoredTask)
