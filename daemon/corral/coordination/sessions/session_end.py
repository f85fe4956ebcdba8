"""Sessions come and go: whatever ends one also ends what it held, in one transaction.

Its locks come free, the tasks that it had claimed are on offer again, what it leaves is written down, and it is
``disconnected``: all of that or nothing. Nobody else calls :func:`corral.coordination.sessions.registry.end`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.mail import addresses
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival, EndedSession
from corral.core.crash import crash_point
from corral.core.instants import iso
from corral.core.states import TaskStatus
from corral.store.rows.sessions import SessionRow

Offer = Callable[[Connection, str, str, datetime], object]
"""``(conn, session_id, reason, now)``: offers again the tasks that a session holds which ends for this reason."""


def end(
    conn: Connection, session_id: str, reason: str, now: datetime, offer: Offer, *, by: str | None = None
) -> EndedSession | None:
    """End a session, and its subagents with it.

    Args:
        offer: Takes its tasks from it.
        by: The one who asked for it where that was somebody else: a session's id, or the person's; for the record.

    Returns:
        Its row, with the paths that came free as ``released``; None if it had ended before.
    """
    # First the tasks: the handoff names the state of each.
    offer(conn, session_id, reason, now)
    crash_point("session.tasks_returned")
    row = session_registry.end(conn, session_id, reason, now, by=by)
    crash_point("session.ended")
    addresses.leave(conn, session_id, now)
    return row


def end_attempt(conn: Connection, session_id: str, status: str, now: datetime, offer: Offer) -> EndedSession | None:
    """End the session of a worker, for what became of its attempt.

    Unless the attempt was completed or cancelled, messages and notices that were delivered to it wait again.
    """
    if status not in (TaskStatus.COMPLETED, TaskStatus.CANCELLED):
        message_rows.put_back(conn, session_id, "", iso(now))
    return end(conn, session_id, status, now, offer)


def put_back_unanswered(conn: Connection, session_id: str, answered_at: datetime | None, now: datetime) -> None:
    """Have mail and notices wait again that a killed or interrupted client got after its model's last answer.

    Some of them may have reached the model all the same: they come twice then, and are never lost.

    Args:
        answered_at: When the model began its latest answer; None: nobody knows, and nothing is put back.
    """
    if answered_at is not None:
        message_rows.put_back(conn, session_id, iso(answered_at), iso(now))


def end_all(conn: Connection, stale: Iterable[tuple[str, str]], now: datetime, offer: Offer) -> list[EndedSession]:
    """End several, each given with the reason; returns what :func:`end` does of those that had not ended before."""
    ended = (end(conn, session_id, reason, now, offer) for session_id, reason in stale)
    return [row for row in ended if row is not None]


def arrive(conn: Connection, arrival: Arrival, now: datetime, offer: Offer) -> SessionRow:
    """Register a session; another one of the same client process is over: one process has one session at a time.

    Raises:
        Conflict: The name that was chosen belongs to another living session.
        InvalidInput: The name cannot be one, or means everybody or Corral.
    """
    for predecessor in session_registry.predecessors(conn, arrival):
        end(conn, predecessor, "superseded", now, offer)
    return session_registry.register(conn, arrival, now)
