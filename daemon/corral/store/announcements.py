"""SQL for what is announced: events that were not told yet, how far the telling has come, and where a batch stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, and_, select, update

from corral.models.events import EventKind
from corral.models.states import OPEN_MERGES, TERMINAL_TASKS, WorktreeState
from corral.store.engine.fetch import fetch_all, has_any
from corral.store.events import move_position, position
from corral.store.merges import of_tasks as merge_tasks
from corral.store.rows.mail import UnseenMessage
from corral.store.rows.records import AttemptEnd, EventRow
from corral.store.rows.tasks import BatchTask
from corral.store.schema import attempts as attempts_table
from corral.store.schema import events, merge_requests, tasks, worktrees
from corral.store.schema_coordination import message_recipients, messages

if TYPE_CHECKING:
    from corral.models.event_payloads import WorktreeSalvaged
from corral.store.tasks.attempts import CURRENT

_READER = "announcements"
SETBACKS = (EventKind.TASK_RETRIED, EventKind.TASK_FAILED, EventKind.TASK_DEAD, EventKind.TASK_INTERRUPTED)
_OPEN_TASK = select(tasks.c.task_id).where(tasks.c.status.not_in(TERMINAL_TASKS))
_OPEN_MERGE = select(merge_requests.c.merge_id).where(merge_requests.c.state.in_(OPEN_MERGES))
_SUMMARY = (
    tasks.c.task_id, tasks.c.thread_id, tasks.c.title, tasks.c.status, tasks.c.submitted_by, attempts_table.c.session_id,
    tasks.c.error_message, tasks.c.completed_at,
    merge_requests.c.state.label("merge_state"), merge_requests.c.conflicts, merge_requests.c.landed_sha,
)  # fmt: skip


def told(conn: Connection) -> int:
    """The last event that was told."""
    return position(conn, _READER) or 0


def move_on(conn: Connection, event_id: int) -> None:
    """Everything up to this event is told; in the transaction that tells it."""
    move_position(conn, _READER, event_id)


def news(conn: Connection, kinds: Sequence[str], after: int, limit: int = 50) -> list[EventRow]:
    """Events of these kinds after one, in order."""
    query = select(events).where(events.c.event_id > after, events.c.kind.in_(list(kinds)))
    return fetch_all(conn, query.order_by(events.c.event_id).limit(limit), EventRow)


def attempts(conn: Connection, task_id: str, until: int) -> list[AttemptEnd]:
    """How the attempts of a task ended, the oldest first."""
    query = select(events.c.at, events.c.kind, events.c.data).where(
        events.c.task_id == task_id, events.c.kind.in_(SETBACKS), events.c.event_id <= until
    )
    return fetch_all(conn, query.order_by(events.c.event_id), AttemptEnd)


def saved(conn: Connection, task_id: str, limit: int) -> list[WorktreeSalvaged]:
    """The salvaged work of a task's attempts, the latest first."""
    query = select(events.c.data).where(events.c.task_id == task_id, events.c.kind == EventKind.WORKTREE_SALVAGED)
    return list(conn.execute(query.order_by(events.c.event_id.desc()).limit(limit)).scalars())


def is_being_saved(conn: Connection, task_id: str) -> bool:
    """Whether a worktree of the task is on its way out, so that what is in it may yet be salvaged."""
    going = (worktrees.c.state == WorktreeState.RECLAIMING, worktrees.c.note.is_(None))
    return has_any(conn, select(worktrees.c.worktree_id).where(worktrees.c.task_id == task_id, *going))


def unseen(conn: Connection, session_id: str) -> list[UnseenMessage]:
    """Unseen messages to a session whose senders were not told of that, the oldest first."""
    sent = messages.c
    query = (
        select(sent.message_id, sent.seq, sent.subject, sent.thread_id, sent.sender_session_id,
               message_recipients.c.name.label("addressed"), message_recipients.c.role)
        .join(message_recipients, message_recipients.c.seq == sent.seq)
        .where(_unseen(session_id), sent.sender_session_id.is_not(None), sent.sender_session_id != session_id)
        .order_by(sent.seq)
    )  # fmt: skip
    return fetch_all(conn, query, UnseenMessage)


def mark_bounced(conn: Connection, session_id: str, at: str) -> None:
    """All that a session has not seen did not arrive."""
    conn.execute(update(message_recipients).where(_unseen(session_id)).values(bounced_at=at))


def _unseen(session_id: str) -> ColumnElement[bool]:
    receipt = message_recipients.c
    instants = (receipt.injected_at, receipt.read_at, receipt.acknowledged_at, receipt.bounced_at)
    return and_(receipt.session_id == session_id, *(instant.is_(None) for instant in instants))


def is_open(conn: Connection, thread_id: str) -> bool:
    """Whether something may still happen to a task of a thread, or to a merge request of one."""
    theirs = tasks.c.thread_id == thread_id
    merge = _OPEN_MERGE.join(tasks, tasks.c.task_id == merge_requests.c.task_id)
    return has_any(conn, _OPEN_TASK.where(theirs)) or has_any(conn, merge.where(theirs))


def follows(conn: Connection, thread_id: str, kinds: Sequence[str], after: int) -> bool:
    """Whether there is an event of these kinds, after one, about a task of a thread."""
    query = (
        select(events.c.event_id)
        .join(tasks, tasks.c.task_id == events.c.task_id)
        .where(events.c.event_id > after, events.c.kind.in_(list(kinds)), tasks.c.thread_id == thread_id)
    )
    return has_any(conn, query)


def wrote(conn: Connection, thread_id: str) -> list[str]:
    """The sessions that have written in a thread."""
    query = select(messages.c.sender_session_id).where(
        messages.c.thread_id == thread_id, messages.c.sender_session_id.is_not(None)
    )
    return list(conn.execute(query.distinct()).scalars())


def batch(conn: Connection, thread_id: str) -> list[BatchTask]:
    """The tasks of a thread, the oldest first: what a summary says of each, and of its merge request that counts."""
    decisive = merge_tasks.of_decisive(merge_requests.c.seq).correlate(tasks).scalar_subquery()
    query = (
        select(*_SUMMARY)
        .outerjoin_from(tasks, merge_requests, merge_requests.c.seq == decisive)
        .outerjoin(attempts_table, CURRENT)
        .where(tasks.c.thread_id == thread_id)
        .order_by(tasks.c.seq)
    )
    return fetch_all(conn, query, BatchTask)


def is_busy(conn: Connection) -> bool:
    """Whether there is a task or a merge request to which something may still happen."""
    return has_any(conn, _OPEN_TASK) or has_any(conn, _OPEN_MERGE)
