"""SQL for announcements: events that are not announced yet, the position of the announcer, and the state of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, and_, bindparam, select, update

from corral.core.events import EventKind
from corral.core.states import OPEN_MERGES, OPEN_TASKS, WorktreeState
from corral.store.engine.fetch import fetch_all, has_any
from corral.store.engine.prepared import Prepared, one_of
from corral.store.events import move_position, position
from corral.store.rows.mail import UnseenMessage
from corral.store.rows.records import AttemptEnd
from corral.store.rows.tasks import BatchTask
from corral.store.schema import attempts as attempts_table
from corral.store.schema import events, merge_requests, tasks, worktrees
from corral.store.schema_coordination import message_recipients, messages
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.tasks.store.attempts import CURRENT

if TYPE_CHECKING:
    from corral.core.event_payloads import WorktreeSalvaged

_READER = "announcements"
_RECEIPT = message_recipients.c
_INSTANTS = (_RECEIPT.injected_at, _RECEIPT.read_at, _RECEIPT.acknowledged_at, _RECEIPT.bounced_at)


def _unseen(whose: str) -> ColumnElement[bool]:
    """The receipts of the session in parameter ``whose`` for messages that it has not seen."""
    return and_(_RECEIPT.session_id == bindparam(whose), *(instant.is_(None) for instant in _INSTANTS))


_SENT = messages.c
_UNSEEN = Prepared[UnseenMessage](
    select(_SENT.message_id, _SENT.seq, _SENT.subject, _SENT.thread_id, _SENT.sender_session_id,
           _RECEIPT.name.label("addressed"), _RECEIPT.role)
    .join(message_recipients, _RECEIPT.seq == _SENT.seq)
    .where(_unseen("session_id"), _SENT.sender_session_id.is_not(None), _SENT.sender_session_id != bindparam("session_id"))
    .order_by(_SENT.seq)
)  # fmt: skip
_MARK_BOUNCED = Prepared[None](update(message_recipients).where(_unseen("whose")), "bounced_at")
_SAVED = Prepared[object](
    select(events.c.data)
    .where(events.c.task_id == bindparam("task_id"), events.c.kind == EventKind.WORKTREE_SALVAGED)
    .order_by(events.c.event_id.desc())
    .limit(bindparam("limit"))
)
SETBACKS = (EventKind.TASK_RETRIED, EventKind.TASK_FAILED, EventKind.TASK_DEAD, EventKind.TASK_INTERRUPTED)
_OPEN_TASK = select(tasks.c.task_id).where(one_of(tasks.c.status, OPEN_TASKS))
_OPEN_MERGE = select(merge_requests.c.merge_id).where(one_of(merge_requests.c.state, OPEN_MERGES))
_ANY_TASK, _ANY_MERGE = Prepared[object](_OPEN_TASK.limit(1)), Prepared[object](_OPEN_MERGE.limit(1))
_SUMMARY = (
    tasks.c.task_id, tasks.c.thread_id, tasks.c.title, tasks.c.status, tasks.c.submitted_by, attempts_table.c.session_id,
    tasks.c.error_message, tasks.c.completed_at,
    merge_requests.c.state.label("merge_state"), merge_requests.c.conflicts, merge_requests.c.landed_sha,
)  # fmt: skip


def last_announced(conn: Connection) -> int:
    """The last event that was announced."""
    return position(conn, _READER) or 0


def move_on(conn: Connection, event_id: int) -> None:
    """Move the position to this event, in the transaction that announces it."""
    move_position(conn, _READER, event_id)


def attempts(conn: Connection, task_id: str, until: int) -> list[AttemptEnd]:
    """How the attempts of a task ended, the oldest first."""
    query = select(events.c.at, events.c.kind, events.c.data).where(
        events.c.task_id == task_id, events.c.kind.in_(SETBACKS), events.c.event_id <= until
    )
    return fetch_all(conn, query.order_by(events.c.event_id), AttemptEnd)


def saved(conn: Connection, task_id: str, limit: int) -> list[WorktreeSalvaged]:
    """The salvaged work of a task's attempts, the latest first."""
    return _SAVED.column(conn, {"task_id": task_id, "limit": limit})


def is_being_saved(conn: Connection, task_id: str) -> bool:
    """Whether a worktree of the task is being reclaimed, so that its content may still be salvaged."""
    going = (worktrees.c.state == WorktreeState.RECLAIMING, worktrees.c.note.is_(None))
    return has_any(conn, select(worktrees.c.worktree_id).where(worktrees.c.task_id == task_id, *going))


def unseen(conn: Connection, session_id: str) -> list[UnseenMessage]:
    """Unseen messages to a session whose senders were not told of that, the oldest first."""
    return _UNSEEN.all(conn, {"session_id": session_id})


def mark_bounced(conn: Connection, session_id: str, at: str) -> None:
    """Mark every message that a session has not seen as bounced."""
    _MARK_BOUNCED.change(conn, {"whose": session_id, "bounced_at": at})


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
    return _ANY_TASK.any(conn, {}) or _ANY_MERGE.any(conn, {})
