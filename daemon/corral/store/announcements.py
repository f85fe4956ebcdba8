"""SQL for what is announced: events that were not told yet, how far the telling has come, and where a batch stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from corral.models.states import OPEN_MERGES, TERMINAL_TASKS
from corral.store.schema import events, merge_requests, tasks
from corral.store.schema_coordination import event_cursors

Row = dict[str, Any]
_READER = "announcements"
_ENDED = ("task.retried", "task.failed", "task.dead", "task.interrupted", "task.lease_expired")
_SUMMARY = (
    tasks.c.task_id, tasks.c.thread_id, tasks.c.title, tasks.c.status, tasks.c.submitted_by, tasks.c.session_id,
    tasks.c.error_message, tasks.c.completed_at,
    merge_requests.c.state.label("merge_state"), merge_requests.c.conflicts, merge_requests.c.landed_sha,
)  # fmt: skip


def told(conn: Connection) -> int:
    """The last event that was told."""
    query = select(event_cursors.c.event_id).where(event_cursors.c.reader == _READER)
    return int(conn.execute(query).scalar() or 0)


def move_on(conn: Connection, event_id: int) -> None:
    """Everything up to this event is told; in the transaction that tells it."""
    changed = update(event_cursors).where(event_cursors.c.reader == _READER).values(event_id=event_id)
    if conn.execute(changed).rowcount == 0:
        conn.execute(insert(event_cursors).values(reader=_READER, event_id=event_id))


def news(conn: Connection, kinds: Sequence[str], after: int, limit: int = 50) -> list[Row]:
    """Events of these kinds after one, in order."""
    query = select(events).where(events.c.event_id > after, events.c.kind.in_(list(kinds)))
    return [dict(row) for row in conn.execute(query.order_by(events.c.event_id).limit(limit)).mappings()]


def attempts(conn: Connection, task_id: str, until: int) -> list[Row]:
    """How the attempts of a task ended, the oldest first: ``{at, kind, data}``."""
    query = select(events.c.at, events.c.kind, events.c.data).where(
        events.c.task_id == task_id, events.c.kind.in_(_ENDED), events.c.event_id <= until
    )
    return [dict(row) for row in conn.execute(query.order_by(events.c.event_id)).mappings()]


def is_open(conn: Connection, thread_id: str) -> bool:
    """Whether something may still happen to a task of a thread, or to a merge request of one."""
    theirs = tasks.c.thread_id == thread_id
    task = select(tasks.c.task_id).where(theirs, tasks.c.status.not_in(TERMINAL_TASKS)).limit(1)
    merge = (
        select(merge_requests.c.merge_id)
        .join(tasks, tasks.c.task_id == merge_requests.c.task_id)
        .where(theirs, merge_requests.c.state.in_(OPEN_MERGES))
        .limit(1)
    )
    return any(conn.execute(query).first() is not None for query in (task, merge))


def batch(conn: Connection, thread_id: str) -> list[Row]:
    """The tasks of a thread, the oldest first: what a summary says of each, and of its latest merge request."""
    latest = (
        select(func.max(merge_requests.c.seq))
        .where(merge_requests.c.task_id == tasks.c.task_id)
        .correlate(tasks)
        .scalar_subquery()
    )
    query = (
        select(*_SUMMARY)
        .outerjoin_from(tasks, merge_requests, merge_requests.c.seq == latest)
        .where(tasks.c.thread_id == thread_id)
        .order_by(tasks.c.seq)
    )
    return [dict(row) for row in conn.execute(query).mappings()]


def is_busy(conn: Connection) -> bool:
    """Whether there is a task or a merge request to which something may still happen."""
    task = select(tasks.c.task_id).where(tasks.c.status.not_in(TERMINAL_TASKS)).limit(1)
    merge = select(merge_requests.c.merge_id).where(merge_requests.c.state.in_(OPEN_MERGES)).limit(1)
    return any(conn.execute(query).first() is not None for query in (task, merge))
