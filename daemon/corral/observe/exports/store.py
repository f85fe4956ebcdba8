"""SQL for the supervisor's exports: events of tasks that a runner executes, and what the files say of such a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select

from corral.core.states import TERMINAL_TASKS
from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared, one_of
from corral.store.rows import columns_of
from corral.store.rows.records import EventRow
from corral.store.rows.tasks import ExportedTask
from corral.store.schema import events, tasks

_IS_EXECUTED = tasks.c.runner.is_not(None)
_TASKS = select(*columns_of(tasks, ExportedTask))
_NAMED = _TASKS.where(tasks.c.task_id.in_(bindparam("task_ids", expanding=True)))
_LATEST = 2**63 - 1
_HISTORIES = (
    select(events)
    .where(events.c.task_id.in_(bindparam("task_ids", expanding=True)))
    .where(events.c.kind.in_(bindparam("kinds", expanding=True)), events.c.event_id <= bindparam("until"))
    .order_by(events.c.event_id)
)


def of_executed(kinds: Sequence[str]) -> Prepared[EventRow]:
    """A statement for :func:`corral.store.events.following`: events of these kinds, of tasks that a runner executes."""
    query = (
        select(events)
        .join(tasks, tasks.c.task_id == events.c.task_id)
        .where(events.c.event_id > bindparam("after"), one_of(events.c.kind, kinds), _IS_EXECUTED)
    )
    return Prepared[EventRow](query.order_by(events.c.event_id).limit(bindparam("most")))


def histories(
    conn: Connection, kinds: Sequence[str], task_ids: Sequence[str], until: int | None = None
) -> dict[str, list[EventRow]]:
    """All events of these kinds of these tasks, by task, in order.

    Args:
        until: Only those up to this ``event_id``.
    """
    by_task: dict[str, list[EventRow]] = {task_id: [] for task_id in task_ids}
    asked = {"task_ids": [*task_ids], "kinds": [*kinds], "until": _LATEST if until is None else until}
    rows: Iterator[Any] = map(dict, conn.execute(_HISTORIES, asked).mappings())
    for row in rows:
        by_task[str(row["task_id"])].append(row)
    return by_task


def named(conn: Connection, task_ids: Sequence[str]) -> dict[str, ExportedTask]:
    """These tasks, by id."""
    rows: Iterator[Any] = map(dict, conn.execute(_NAMED, {"task_ids": [*task_ids]}).mappings())
    return {row["task_id"]: row for row in rows}


def ended(conn: Connection, limit: int = 10_000) -> list[ExportedTask]:
    """The tasks that a runner executed and that are over, the oldest first; at most so many, the newest."""
    query = _TASKS.where(_IS_EXECUTED, tasks.c.status.in_(TERMINAL_TASKS)).order_by(tasks.c.seq.desc())
    return fetch_all(conn, query.limit(limit), ExportedTask)[::-1]
