"""Reading mail: an inbox, a thread, what holds some words. Nothing is changed by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.mail.api import MOST_AT_ONCE
from corral.coordination.mail.store import mailbox, messages
from corral.coordination.mail.store import mailbox as mailbox_rows
from corral.core.errors import InvalidInput, NotFound
from corral.core.instants import UTC, iso
from corral.core.payload import Payload
from corral.core.states import Importance
from corral.store.engine import search
from corral.store.rows.mail import InboxMessage, MessageRow, WrittenMessage

LARGEST = 2**53
"""Number of a message that can be asked for."""
_FOUND = "search_messages finds messages by words; so does `corral message search`."
_PRESSING = (Importance.HIGH.value, Importance.URGENT.value)


class InvalidInstant(InvalidInput):
    """The text cannot be read as an instant."""

    name = "invalid_timestamp"


def inbox(
    conn: Connection,
    session_id: str | None,
    *,
    blind: bool = True,
    urgent_only: bool = False,
    unread_only: bool = False,
    overdue_at: str | None = None,
    since_ts: str | None = None,
    after: int | None = None,
    before: tuple[int, str] | None = None,
    limit: int = 20,
    written: Mapping[str, str] | None = None,
) -> Iterator[InboxMessage] | Iterator[WrittenMessage]:
    """A session's mail, the newest first; of all sessions where none is named. Rows are read as it is iterated.

    Args:
        blind: With the blind copies that the session got: for itself only. Those of everybody are never told.
        urgent_only: Only what is ``high`` or ``urgent``.
        overdue_at: Only what was sent before it, asks for an acknowledgement, and has none.
        since_ts: An ISO 8601 instant; only what was sent after it.
        after: Only messages with a higher number.
        before: Only what comes behind this number and this name of a recipient.
        limit: 1 to 1000.
        written: Of one session's: names, and the columns that stand under them; then each is ``{id, to, text}``, the text a JSON
            object.

    Raises:
        InvalidInput: A value is malformed or out of range.
    """
    _check_limit(limit, MOST_AT_ONCE)
    if before is not None and before[0] > LARGEST:
        raise InvalidInput("No message has such a number.", remedy="Name one that the list told, or none.")
    return mailbox_rows.inbox(
        conn,
        session_id,
        blind=blind and session_id is not None,
        importances=_PRESSING if urgent_only else (),
        unread=unread_only,
        overdue_at=overdue_at,
        since=_instant(since_ts) if since_ts else None,
        after=after,
        before=before,
        limit=limit,
        written=written,
    )


def _check_limit(limit: int, most: int) -> None:
    if not 1 <= limit <= most:
        raise InvalidInput(f"A limit of {limit} is not possible.", remedy=f"Use 1 to {most}.")


def outbox(
    conn: Connection, session_id: str, *, since_ts: str | None = None, before: int | None = None, limit: int = 20
) -> Iterator[MessageRow]:
    """What a session sent, the newest first; arguments as those of :func:`inbox`.

    Raises:
        InvalidInput: A value is malformed or out of range.
    """
    _check_limit(limit, MOST_AT_ONCE)
    since = _instant(since_ts) if since_ts else None
    return mailbox_rows.outbox(conn, session_id, since=since, before=before, limit=limit)


def thread(
    conn: Connection, thread_id: str, *, before: int | None = None, limit: int = MOST_AT_ONCE
) -> Iterator[MessageRow]:
    """The messages of a thread, the newest first; a message's number or id means its thread.

    Args:
        before: Only messages with a lower number.

    Raises:
        NotFound: No such thread.
    """
    resolved_id = thread_of(conn, thread_id)
    if resolved_id is None:
        raise NotFound(f"There is no thread {thread_id[:128]!r}.", remedy=_FOUND)
    return mailbox_rows.thread(conn, resolved_id, before=before, limit=limit)


def thread_of(conn: Connection, reference: str) -> str | None:
    """The thread of that name, or else the one that the message of that number or id is in; None: neither is there."""
    first = next(mailbox_rows.thread(conn, reference, limit=1), None) or messages.find(conn, reference)
    return first["thread_id"] if first is not None else None


def find(
    conn: Connection, words: str, *, session_id: str | None = None, asker: str | None = None, limit: int = 20
) -> Iterator[MessageRow]:
    """Messages that hold all the words, the best first; only those that a session sent or got, where one is named.

    Args:
        asker: The session that asks; it finds a blind copy only if it sent or got it.
    """
    _check_limit(limit, 200)
    if not words.strip():
        raise InvalidInput("Nothing was asked for.", remedy="Give one or more words.")
    numbers = search.matching(conn, "messages", words, 200 if session_id else limit)
    if session_id is not None:
        addressed = messages.addressed_to(conn, session_id, numbers, asker)
        numbers = [number for number in numbers if number in addressed]
    return mailbox_rows.numbered(conn, numbers[:limit])


def _instant(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        return iso(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise InvalidInstant(
            f"{text[:80]!r} is not an instant.", remedy="Write it like 2026-11-21T22:10:00Z."
        ) from error


# -- Summaries of threads, for a session that joins one

EXAMPLES = 3
"""Messages of a thread that a session that joins it sees whole."""
MOST_POINTS = 50
"""Subjects in a summary, the latest."""


def summary(conn: Connection, thread_id: str) -> Payload:
    """Summarize a thread: ``{summary: {participants, key_points, action_items}, total_messages}``; all empty where there is
    no such thread yet."""
    headings = mailbox.headings(conn, thread_id)
    parts = {
        "participants": list(dict.fromkeys(row["sender_name"] for row in headings)),
        "key_points": list(dict.fromkeys(row["subject"] for row in headings))[-MOST_POINTS:],
        "action_items": [row["subject"] for row in headings if row["ack_required"]][-MOST_POINTS:],
    }
    return {"summary": parts, "total_messages": mailbox.how_many(conn, thread_id)}
