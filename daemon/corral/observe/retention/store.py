"""SQL for retention: which rows of a kind are over and old, and deleting them with what belongs to them.

Rows of an open task, an open merge request, a live session or a live worktree are never old; nor are rows that somebody has not
read. Candidates are looked for by a reader; the writer checks the same condition again for the few that it deletes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, and_, delete, exists, func, or_, select, update

from corral.core.events import EventKind
from corral.core.states import OPEN_MERGES, TERMINAL_TASKS, MergeState, SessionStatus, TaskStatus, WorktreeState
from corral.store.schema import (
    agent_sessions,
    attempts,
    events,
    file_locks,
    merge_requests,
    notices,
    receipts,
    task_dependencies,
    tasks,
    worktrees,
)
from corral.store.schema_coordination import (
    agent_names,
    event_cursors,
    handoffs,
    lock_waits,
    memories,
    message_recipients,
    messages,
)
from corral.store.schema_project import alerts, deliveries
from corral.work.agents.store import runs

_OPEN_TASK = tasks.c.status.not_in(TERMINAL_TASKS)
_OPEN_MERGE = merge_requests.c.state.in_(OPEN_MERGES)
_LIVE = agent_sessions.c.status != SessionStatus.DISCONNECTED


@dataclass(frozen=True)
class Rows:
    """A kind of rows that retention deletes.

    Attributes:
        key: Its primary key, or the part of it that the rows of one owner have in common.
        at: The instant that their age is counted from.
        is_old: The condition under which they may go, for the instant before which they are old.
        kept: Why those that are as old, and may not go, are kept.
        release: Deletes, or detaches, what refers to the rows with these keys.
    """

    table: Table
    key: Column[Any]
    at: Column[Any]
    is_old: Callable[[str], ColumnElement[bool]]
    kept: str
    release: Callable[[Connection, Sequence[Any]], None] = lambda _conn, _keys: None


def _old_events(before: str) -> ColumnElement[bool]:
    its = events.c
    announced = func.coalesce(select(func.min(event_cursors.c.event_id)).scalar_subquery(), 0)
    return and_(
        its.at < before,
        its.event_id < select(func.max(its.event_id)).scalar_subquery(),  # whose number would be given out again
        or_(its.event_id <= announced, ~_is_announced(its.kind)),
        ~exists(select(tasks.c.seq).where(tasks.c.task_id == its.task_id, _OPEN_TASK)),
        ~exists(select(merge_requests.c.seq).where(merge_requests.c.merge_id == its.merge_id, _OPEN_MERGE)),
        ~exists(select(agent_sessions.c.session_id).where(agent_sessions.c.session_id == its.session_id, _LIVE)),
    )


def _is_announced(kind: Column[Any]) -> ColumnElement[bool]:
    return or_(*(kind.startswith(noun) for noun in ("task.", "merge.", EventKind.SESSION_ENDED)))


def _is_over(session_id: Column[Any], before: str) -> ColumnElement[bool]:
    its = agent_sessions.c
    return exists(select(its.session_id).where(its.session_id == session_id, its.ended_at < before))


def _old_notices(before: str) -> ColumnElement[bool]:
    over = _is_over(notices.c.session_id, before)
    return and_(notices.c.created_at < before, or_(notices.c.injected_at.is_not(None), over))


def _old_messages(before: str) -> ColumnElement[bool]:
    """Every recipient has it: it was delivered or read, and acknowledged if required; or the sender was told that it did
    not arrive, and its recipient is over for as long."""
    its, theirs = messages.c, message_recipients.c
    seen = or_(theirs.injected_at.is_not(None), theirs.read_at.is_not(None))
    over = _is_over(theirs.session_id, before)
    done = or_(
        theirs.acknowledged_at.is_not(None),
        and_(seen, or_(its.ack_required.is_(False), over)),
        and_(theirs.bounced_at.is_not(None), over),
    )
    open_recipient = select(theirs.seq).where(theirs.seq == its.seq, ~done)
    open_thread = select(tasks.c.seq).where(tasks.c.thread_id == its.thread_id, _OPEN_TASK)
    return and_(its.created_at < before, ~exists(open_recipient), ~exists(open_thread))


def _old_receipts(before: str) -> ColumnElement[bool]:
    needed = (*OPEN_MERGES, MergeState.LANDED)
    pointing = select(merge_requests.c.seq).where(
        merge_requests.c.receipt_id == receipts.c.receipt_id, merge_requests.c.state.in_(needed)
    )
    return and_(receipts.c.created_at < before, ~exists(pointing))


def _old_attempts(before: str) -> ColumnElement[bool]:
    """Not the newest attempt of its task; the task is over and settled, and no other task waits for it."""
    its, dependent = attempts.c, tasks.alias("dependent")
    settled = select(tasks.c.seq).where(
        tasks.c.task_id == its.task_id,
        ~_OPEN_TASK,
        tasks.c.fencing_token > its.number,
        or_(tasks.c.status != TaskStatus.DEAD, tasks.c.dismissed_at.is_not(None)),
    )
    landing = select(merge_requests.c.seq).where(merge_requests.c.task_id == its.task_id, _OPEN_MERGE)
    waited_for = (
        select(task_dependencies.c.task_id)
        .join(dependent, dependent.c.task_id == task_dependencies.c.task_id)
        .where(task_dependencies.c.depends_on == its.task_id, dependent.c.status.not_in(TERMINAL_TASKS))
    )
    return and_(its.ended_at < before, exists(settled), ~exists(landing), ~exists(waited_for))


def _old_worktrees(before: str) -> ColumnElement[bool]:
    open_merge = select(merge_requests.c.seq).where(merge_requests.c.branch == worktrees.c.branch, _OPEN_MERGE)
    return and_(worktrees.c.state == WorktreeState.REMOVED, worktrees.c.removed_at < before, ~exists(open_merge))


def _old_sessions(before: str) -> ColumnElement[bool]:
    """Ended, and nothing that stays refers to it."""
    its = agent_sessions.c
    child, heir = agent_sessions.alias("child"), agent_sessions.alias("heir")
    referring = (
        select(handoffs.c.seq).where(handoffs.c.session_id == its.session_id),
        select(messages.c.seq).where(messages.c.sender_session_id == its.session_id),
        select(message_recipients.c.seq).where(message_recipients.c.session_id == its.session_id),
        select(file_locks.c.lock_id).where(file_locks.c.session_id == its.session_id),
        select(lock_waits.c.seq).where(lock_waits.c.session_id == its.session_id),
        select(child.c.session_id).where(child.c.parent_session_id == its.session_id),
    )
    named = (
        select(attempts.c.session_id).join(tasks, tasks.c.task_id == attempts.c.task_id).where(_OPEN_TASK),
        select(merge_requests.c.session_id).where(_OPEN_MERGE, merge_requests.c.session_id.is_not(None)),
        select(worktrees.c.session_id).where(
            worktrees.c.state != WorktreeState.REMOVED, worktrees.c.session_id.is_not(None)
        ),
        select(heir.c.heir_session_id).where(heir.c.heir_session_id.is_not(None)),
    )
    return and_(
        its.status == SessionStatus.DISCONNECTED,
        its.ended_at < before,
        *(~exists(query) for query in referring),
        *(its.session_id.not_in(query) for query in named),
    )


def _release_messages(conn: Connection, keys: Sequence[Any]) -> None:
    conn.execute(delete(message_recipients).where(message_recipients.c.seq.in_(keys)))


def _release_receipts(conn: Connection, keys: Sequence[Any]) -> None:
    conn.execute(update(merge_requests).where(merge_requests.c.receipt_id.in_(keys)).values(receipt_id=None))


def _release_sessions(conn: Connection, keys: Sequence[Any]) -> None:
    """Free the names of ended sessions; their memories keep the name that they had."""
    conn.execute(delete(agent_names).where(agent_names.c.session_id.in_(keys)))
    conn.execute(delete(notices).where(notices.c.session_id.in_(keys)))
    conn.execute(update(memories).where(memories.c.session_id.in_(keys)).values(session_id=None))


KINDS: dict[str, Rows] = {
    "events": Rows(
        events, events.c.event_id, events.c.at, _old_events,
        "of an open task, an open merge or a live session, or not handled yet",
    ),
    "alerts": Rows(
        alerts, alerts.c.alert_id, alerts.c.resolved_at, lambda before: alerts.c.resolved_at < before, "not resolved"
    ),
    "deliveries": Rows(
        deliveries, deliveries.c.delivery_id, deliveries.c.settled_at, lambda before: deliveries.c.settled_at < before,
        "not delivered yet",
    ),
    "notices": Rows(notices, notices.c.notice_id, notices.c.created_at, _old_notices, "not delivered yet"),
    "messages": Rows(
        messages, messages.c.seq, messages.c.created_at, _old_messages,
        "unread, not acknowledged, or in the thread of an open task", _release_messages,
    ),
    "receipts": Rows(
        receipts, receipts.c.receipt_id, receipts.c.created_at, _old_receipts, "of an open or landed merge",
        _release_receipts,
    ),
    "attempts": Rows(
        attempts, attempts.c.task_id, attempts.c.ended_at, _old_attempts,
        "the newest of its task, or of a task that is open, dead, landing or waited for", runs.keep,
    ),
    "worktrees": Rows(
        worktrees, worktrees.c.worktree_id, worktrees.c.removed_at, _old_worktrees, "its branch is there, or asked to land"
    ),
    "sessions": Rows(
        agent_sessions, agent_sessions.c.session_id, agent_sessions.c.ended_at, _old_sessions,
        "with a handoff, mail or a lock, or named by open work", _release_sessions,
    ),
}  # fmt: skip
"""The kinds in the order of deletion: a row that refers to another goes before it."""


def old(conn: Connection, kind: str, before: str, limit: int) -> list[Any]:
    """The keys of rows that may go, at most so many; a query for a reader.

    Args:
        before: The instant before which rows of this kind are old.
    """
    rows = KINDS[kind]
    return list(conn.execute(select(rows.key).where(rows.is_old(before)).limit(limit)).scalars())


def branches(conn: Connection, worktree_ids: Collection[str]) -> dict[str, str | None]:
    """The branch of each of these worktrees."""
    its = worktrees.c
    query = select(its.worktree_id, its.branch).where(its.worktree_id.in_(worktree_ids))
    return {row.worktree_id: row.branch for row in conn.execute(query)}


def remove(conn: Connection, kind: str, keys: Sequence[Any], before: str) -> int:
    """Delete those of these rows that are still old, with what belongs to them.

    Returns:
        How many were deleted.
    """
    rows = KINDS[kind]
    going = list(conn.execute(select(rows.key).where(rows.key.in_(keys), rows.is_old(before))).scalars())
    if going:
        rows.release(conn, going)
        return conn.execute(delete(rows.table).where(rows.key.in_(going), rows.is_old(before))).rowcount
    return 0


def counts(conn: Connection, kind: str, before: str) -> tuple[int, int]:
    """How many old rows of a kind may go, and how many may not; a query for a reader."""
    rows = KINDS[kind]
    aged, going = (
        int(conn.execute(select(func.count()).select_from(rows.table).where(condition)).scalar_one())
        for condition in (rows.at < before, rows.is_old(before))
    )
    return going, aged - going


def owners_of_landed_logs(conn: Connection) -> set[str]:
    """The ids of landed merge requests and of their tasks: their logs go first."""
    its = merge_requests.c
    query = select(its.merge_id, its.task_id).where(its.state == MergeState.LANDED)
    return {str(owner) for row in conn.execute(query) for owner in row if owner}


def owners_of_logs(conn: Connection) -> set[str]:
    """Whose logs stay: the ids of open tasks and open merge requests, and the names of live worktrees."""
    queries = (
        select(tasks.c.task_id).where(_OPEN_TASK),
        select(merge_requests.c.merge_id).where(_OPEN_MERGE),
        select(worktrees.c.name).where(worktrees.c.state != WorktreeState.REMOVED),
    )
    return {str(owner) for query in queries for owner in conn.execute(query).scalars()}
