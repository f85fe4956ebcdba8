"""The dead-letter queue: tasks that are out of retries, with all that is known of why; retried or cleared one by one or all.

A task is in it while it is ``dead`` and nobody has dismissed it. Nothing is deleted: what is cleared stays in the list of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from corral.config.sections.work import Tasks as TaskRules
from corral.core.errors import Conflict
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.payload import Payload, picked
from corral.core.states import TaskStatus
from corral.store import events
from corral.store.rows.tasks import TaskRow
from corral.work.tasks import tasks, views
from corral.work.tasks.store import lists, outcomes

_SHOWN = (
    "task_id", "title", "priority", "error_code", "error_message", "attempts", "agent", "runner", "created_at", "completed_at",
)  # fmt: skip


def listing(conn: Connection, *, after: str | None = None, limit: int | None = None) -> list[Payload]:
    """The dead tasks, the oldest first.

    Args:
        after: Only those behind the task with this id.
    """
    return [picked(row, _SHOWN) for row in lists.dead(conn, after=after, limit=limit)]


def read(conn: Connection, task_id: str) -> Payload:
    """Everything about a dead task (:func:`corral.work.tasks.views.detail`).

    Raises:
        NotFound: No such task.
        Conflict: It is not in the dead-letter queue.
    """
    return views.detail(conn, _dead(conn, task_id)["task_id"])


def retry(conn: Connection, task_ids: Sequence[str], now: datetime, rules: TaskRules) -> list[str]:
    """Run dead tasks again with all their retries, all of these or none; returns their ids.

    Raises:
        NotFound: No such task.
        Conflict: One of them is not in the dead-letter queue.
    """
    dead_ids = [_dead(conn, task_id)["task_id"] for task_id in task_ids]
    for task_id in dict.fromkeys(dead_ids):
        tasks.retry(conn, task_id, now, rules)
    return list(dict.fromkeys(dead_ids))


def clear(conn: Connection, task_ids: Sequence[str], now: datetime) -> list[str]:
    """Take tasks out of the dead-letter queue for good, all of these or none; returns their ids. Raises as :func:`retry`."""
    dead_ids = [_dead(conn, task_id)["task_id"] for task_id in task_ids]
    for task_id in dict.fromkeys(dead_ids):
        outcomes.dismiss_task(conn, task_id, iso(now))
        events.record(conn, now, EventKind.TASK_DISMISSED, task_id=task_id)
    return list(dict.fromkeys(dead_ids))


def _dead(conn: Connection, task_id: str) -> TaskRow:
    row = tasks.find(conn, task_id)
    if row["status"] == TaskStatus.DEAD and row["dismissed_at"] is None:
        return row
    is_cleared = row["status"] == TaskStatus.DEAD
    raise Conflict(
        f"Task {row['task_id']} is {'cleared' if is_cleared else row['status']}: it is not in the dead-letter queue.",
        cause="The dead-letter queue holds the tasks that are out of retries.",
        remedy="`corral task retry ID` runs any task again that failed; `corral task dlq list` shows the dead ones.",
    )
