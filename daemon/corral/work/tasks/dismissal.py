"""Settle what failed: a person or an agent says that nothing more is to be done about it."""

from __future__ import annotations

import contextlib
from datetime import datetime

from sqlalchemy import Connection

from corral.core.errors import Conflict, NotFound
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.states import OPEN_MERGES, RETURNED_MERGES
from corral.store import events
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import TaskRow
from corral.work.merges.store import merges
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.tasks import tasks
from corral.work.tasks.store import outcomes


def dismiss(conn: Connection, name: str, now: datetime) -> Payload:
    """Dismiss a merge request that came back, or a task that failed or whose merge request came back. Safe to repeat.

    Nothing is deleted: the branch stays, and a retry takes the dismissal back.

    Args:
        name: The id of a merge request or of a task, the beginning of one, or a task's number.

    Returns:
        ``merge_id`` and ``task_id`` (None where there is none), and ``outcome``.

    Raises:
        NotFound: There is neither.
        Conflict: Nothing failed.
    """
    merge, task = _named(conn, name)
    if task is not None and outcomes.dismiss_task(conn, task["task_id"], iso(now)):
        events.record(conn, now, EventKind.TASK_DISMISSED, task_id=task["task_id"])
    elif merge is not None and merge["state"] in RETURNED_MERGES:
        if outcomes.dismiss_merge(conn, merge["merge_id"], iso(now)) is not None:
            events.record(conn, now, EventKind.MERGE_DISMISSED, task_id=merge["task_id"], merge_id=merge["merge_id"])
    elif task is None or task["dismissed_at"] is None:
        raise _nothing_failed(task, merge)
    task_id = task["task_id"] if task is not None else merge["task_id"] if merge is not None else None
    return {"merge_id": merge["merge_id"] if merge else None, "task_id": task_id, "outcome": "dismissed"}


def _named(conn: Connection, name: str) -> tuple[MergeRow | None, TaskRow | None]:
    """The merge request that a text names; else the task, with its request."""
    if not merge_tasks.is_number(name):
        with contextlib.suppress(NotFound):
            return merges.get(conn, name), None
    task = _task(conn, name)
    return merge_tasks.decisive(conn, task["task_id"]), task


def _task(conn: Connection, name: str) -> TaskRow:
    try:
        return tasks.find(conn, name)
    except NotFound as error:
        raise NotFound(
            f"There is no merge request and no task {name[:80]!r}.",
            remedy="`corral merge list` and `corral task list` show them all.",
        ) from error


def _nothing_failed(task: TaskRow | None, merge: MergeRow | None) -> Conflict:
    subject = f"Task {task['task_id']}" if task is not None else "It"
    state = task["status"] if task is not None else ""
    if merge is not None:
        subject = f"Merge request {merge['merge_id']}"
        state = merge["state"]
    is_open = merge is not None and merge["state"] in OPEN_MERGES
    return Conflict(
        f"{subject} is {state}: there is nothing to dismiss.",
        cause="Only what failed or came back can be dismissed.",
        remedy="`corral merge cancel ID` takes it out of the queue." if is_open else "Nothing to do.",
    )
