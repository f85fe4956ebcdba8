"""SQL for attempts: one row for each time that a task was leased. The number of an attempt is its fencing token."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import Connection, and_, bindparam, func, insert, or_, select, update

from corral.store.engine.fetch import fetch_one
from corral.store.engine.prepared import Prepared
from corral.store.rows import columns_of
from corral.store.rows.tasks import AttemptRow, CurrentAttempt, DayUse, StoredTask, TaskRow
from corral.store.schema import attempts, tasks

_COLUMNS = columns_of(attempts, CurrentAttempt)
_NONE = dict.fromkeys(CurrentAttempt.__annotations__)
CURRENT = and_(attempts.c.task_id == tasks.c.task_id, attempts.c.number == tasks.c.current_attempt)
"""The condition that joins a task with the attempt that counts."""
TASK_ROWS = select(tasks, *_COLUMNS).outerjoin_from(tasks, attempts, CURRENT)
"""Whole rows of tasks: :class:`corral.store.rows.tasks.TaskRow`."""

_MINE = (attempts.c.task_id == bindparam("which"), attempts.c.number == bindparam("attempt"))
_READ = Prepared[CurrentAttempt](select(*_COLUMNS).where(*_MINE))
_OF_TASK = Prepared[AttemptRow](
    select(attempts).where(attempts.c.task_id == bindparam("which")).order_by(attempts.c.number)
)
_SET = ("task_id", "number", "session_id", "claim_key", "lease_expires_at", "usage", "claimed_at", "started_at")
_OPEN = Prepared[None](insert(attempts), *_SET)


def create(conn: Connection, task: StoredTask, values: Mapping[str, Any]) -> TaskRow:
    """Insert the attempt that a leased task has just got; returns the task with it."""
    _OPEN.change(conn, {"task_id": task["task_id"], "number": task["fencing_token"], "usage": {}, **values})
    return _joined(task, cast("CurrentAttempt", {name: values.get(name) for name in _NONE}))


def join(conn: Connection, task: StoredTask, values: Mapping[str, Any] | None = None) -> TaskRow:
    """A task with the attempt that counts.

    Args:
        values: Columns of its newest attempt to set before; nothing if it has had none.
    """
    changed = None
    if values:
        parameters = {**values, "which": task["task_id"], "attempt": task["fencing_token"]}
        changed = _change(tuple(values), False).first(conn, parameters)
    if task["current_attempt"] is None:
        return _joined(task, None)
    return _joined(task, changed or _READ.first(conn, {"which": task["task_id"], "attempt": task["current_attempt"]}))


def change_open(conn: Connection, task_id: str, number: int, values: Mapping[str, Any]) -> bool:
    """Set columns of an attempt that has not ended; returns False, and changes nothing, if it has."""
    return _change(tuple(values), True).first(conn, {**values, "which": task_id, "attempt": number}) is not None


def of_task(conn: Connection, task_id: str) -> list[AttemptRow]:
    """All attempts at a task, the oldest first."""
    return _OF_TASK.all(conn, {"which": task_id})


def model_of(conn: Connection, task_id: str, number: int) -> str | None:
    """The model that the worker of an attempt asked for."""
    query = select(attempts.c.model).where(attempts.c.task_id == task_id, attempts.c.number == number)
    return conn.execute(query).scalar_one_or_none()


def at_work(conn: Connection) -> dict[str, int]:
    """How many attempts each agent has that have not ended."""
    query = select(attempts.c.agent, func.count().label("number")).where(
        attempts.c.ended_at.is_(None), attempts.c.agent.is_not(None)
    )
    return {row.agent: row.number for row in conn.execute(query.group_by(attempts.c.agent))}


def use_since(conn: Connection, since: str) -> DayUse:
    """The tokens and the cost of all attempts that ended after an instant or are open."""
    read, written = (attempts.c.usage[name].as_integer() for name in ("input_tokens", "output_tokens"))
    cost = func.sum(attempts.c.usage["cost_usd"].as_float()).label("cost_usd")
    recent = or_(attempts.c.ended_at.is_(None), attempts.c.ended_at > since)
    query = select(func.sum(func.coalesce(read, 0) + func.coalesce(written, 0)).label("tokens"), cost)
    return fetch_one(conn, query.where(recent), DayUse)


@lru_cache(maxsize=64)
def _change(columns: tuple[str, ...], only_open: bool) -> Prepared[CurrentAttempt]:
    query = update(attempts).where(*_MINE)
    if only_open:
        query = query.where(attempts.c.ended_at.is_(None))
    return Prepared(query.returning(*_COLUMNS), *columns)


def _joined(task: StoredTask, attempt: CurrentAttempt | None) -> TaskRow:
    return cast("TaskRow", {**task, **(attempt or _NONE)})
