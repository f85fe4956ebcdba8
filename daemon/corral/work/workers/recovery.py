"""Running tasks whose workers are gone or going: what a daemon's start, and its end, makes of them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.sessions import session_end
from corral.core.states import TaskStatus
from corral.store.rows import required
from corral.work.tasks import attempts, leases
from corral.work.tasks.attempts import INTERRUPTED
from corral.work.tasks.store import tasks


def mark_crashed(conn: Connection, now: datetime, rules: TaskRules) -> None:
    """A regular stop leaves nothing ``running``: the daemon died with these."""
    for row in tasks.in_status(conn, TaskStatus.RUNNING):
        attempts.crash(conn, row, now, rules)
        session_end.end_attempt(conn, required(row["session_id"]), INTERRUPTED, now, leases.offering(rules))


def interrupt_all(conn: Connection, now: datetime, rules: TaskRules) -> None:
    """Interrupt every running task, at the end of a stop."""
    for row in tasks.in_status(conn, TaskStatus.RUNNING):
        attempts.interrupt(conn, row, "The daemon was stopped before it had ended.", now)
        session_end.end_attempt(conn, required(row["session_id"]), INTERRUPTED, now, leases.offering(rules))
