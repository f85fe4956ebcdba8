"""SQL for which messages belong to a task: those of its thread, and those that a session sent or got during an attempt at it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, or_, select

from corral.store.rows.mail import MessageRow
from corral.store.schema import attempts, tasks
from corral.store.schema_coordination import message_recipients, messages

_m, _r, _a = messages.c, message_recipients.c, attempts.c


def of_thread(conn: Connection, thread_id: str, until: str, limit: int) -> list[str]:
    """The ids of the last messages of a thread, the oldest first.

    Args:
        until: Only those that were sent until then.
    """
    query = select(_m.message_id).where(_m.thread_id == thread_id, _m.created_at <= until)
    return [str(message_id) for message_id in conn.execute(query.order_by(_m.seq.desc()).limit(limit)).scalars()][::-1]


def of_session(conn: Connection, session_id: str, since: str, until: str, limit: int) -> list[str]:
    """The ids of the last messages that a session sent or that were addressed to it within this time, the oldest first."""
    sent = select(_m.seq, _m.message_id).where(_m.sender_session_id == session_id)
    got = select(_m.seq, _m.message_id).join(message_recipients, _r.seq == _m.seq).where(_r.session_id == session_id)
    message_ids: dict[int, str] = {}
    for query in (sent, got):
        within = query.where(_m.created_at >= since, _m.created_at <= until)
        rows = conn.execute(within.order_by(_m.seq.desc()).limit(limit))
        message_ids.update({int(row.seq): str(row.message_id) for row in rows})
    return [message_ids[seq] for seq in sorted(message_ids)][-limit:]


def tasks_of(conn: Connection, message: MessageRow, limit: int) -> list[str]:
    """The ids of tasks that a message belongs to, in order of submission: by its thread, its sender or a recipient."""
    at = message["created_at"]
    during = (_a.claimed_at <= at, or_(_a.ended_at.is_(None), _a.ended_at >= at))
    addressed = select(_r.session_id).where(_r.seq == message["seq"])
    of_session = or_(_a.session_id == message["sender_session_id"], _a.session_id.in_(addressed))
    of_thread = select(tasks.c.seq, tasks.c.task_id).where(tasks.c.thread_id == message["thread_id"])
    at_work = (
        select(tasks.c.seq, tasks.c.task_id).join(attempts, _a.task_id == tasks.c.task_id).where(*during, of_session)
    )
    task_ids: dict[int, str] = {}
    for query in (of_thread, at_work):
        rows: Sequence[tuple[int, str]] = conn.execute(query.order_by(tasks.c.seq.desc()).limit(limit)).tuples().all()
        task_ids.update(rows)
    return [task_ids[seq] for seq in sorted(task_ids)][-limit:]
