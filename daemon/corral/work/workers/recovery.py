"""Running tasks whose workers are gone or going: what a daemon's start, and its end, makes of them.

Workers that another daemon started, and that live, are followed (:func:`corral.work.workers.execution.adopt`).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection

from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.sessions import session_end
from corral.core.states import TaskStatus
from corral.store.rows import required
from corral.store.rows.tasks import TaskRow
from corral.work.tasks import attempts, leases
from corral.work.tasks.attempts import INTERRUPTED
from corral.work.tasks.store import tasks
from corral.work.workers.meter import Key


def mark_crashed(conn: Connection, now: datetime, rules: TaskRules, adopted: Collection[Key]) -> None:
    """The workers of these tasks died with their daemon.

    Args:
        adopted: The attempts whose workers did not.
    """
    for row in _running_without(conn, adopted):
        attempts.crash(conn, row, now, rules)
        session_end.end_attempt(conn, required(row["session_id"]), INTERRUPTED, now, leases.offering(rules))


def interrupt_all(conn: Connection, now: datetime, rules: TaskRules, left: Collection[Key]) -> None:
    """Interrupt every running task, at the end of a stop.

    Args:
        left: The attempts whose workers go on, for the next daemon.
    """
    for row in _running_without(conn, left):
        attempts.interrupt(conn, row, "The daemon was stopped before it had ended.", now)
        session_end.end_attempt(conn, required(row["session_id"]), INTERRUPTED, now, leases.offering(rules))


def _running_without(conn: Connection, attempts_left: Collection[Key]) -> list[TaskRow]:
    rows = tasks.in_status(conn, TaskStatus.RUNNING)
    return [row for row in rows if (row["task_id"], row["fencing_token"]) not in attempts_left]
