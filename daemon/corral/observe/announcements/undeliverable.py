"""Undeliverable mail: the senders learn what a session that ended has not seen, or has lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.mail import addresses
from corral.coordination.mail.messages import Letter
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.states import Importance, RecipientRole, SessionStatus
from corral.observe.announcements import letters as notification_templates
from corral.observe.announcements import store as announcements
from corral.store import events
from corral.store.rows import required
from corral.store.rows.mail import UnseenMessage
from corral.store.rows.records import EventRow
from corral.store.rows.sessions import SessionRow


def bounce(conn: Connection, event: EventRow, now: datetime) -> None:
    """Tell the senders, one letter and one event each. The mail stays, in case the session comes back.

    Of a blind copy only its sender learns: no event tells of it, and the letter is in a thread of its own.
    """
    session_id = event["session_id"]
    row = session_rows.get(conn, session_id) if session_id is not None else None
    if session_id is None or row is None or row["status"] != SessionStatus.DISCONNECTED:
        return
    unseen: dict[str, list[UnseenMessage]] = {}
    for message in announcements.unseen(conn, session_id):
        unseen.setdefault(required(message["sender_session_id"]), []).append(message)
    announcements.mark_bounced(conn, session_id, iso(now))
    for writer, messages in unseen.items():
        sent = [message["message_id"] for message in messages if message["role"] != RecipientRole.BCC]
        if sent:
            shown = sent[: notification_templates.SHOWN]
            bounced = EventKind.MESSAGE_BOUNCED({"sender": writer, "message_ids": shown, "count": len(sent)})
            events.record(conn, now, bounced, session_id=session_id)
        sender = session_rows.get(conn, addresses.heir(conn, writer))
        if sender is not None and sender["status"] != SessionStatus.DISCONNECTED:
            notification_templates.send(conn, _bounce_letter(row, messages), [sender["session_id"]], event, now)


def _bounce_letter(session: SessionRow, messages: list[UnseenMessage]) -> Letter:
    """The letter to one sender about all of their messages that a session has not seen."""
    threads = {None if message["role"] == RecipientRole.BCC else message["thread_id"] for message in messages}
    more = (
        f" and {len(messages) - notification_templates.SHOWN} more"
        if len(messages) > notification_templates.SHOWN
        else ""
    )
    # Everybody may read the letter; whom a blind copy went to is nobody's business.
    blind = any(message["role"] == RecipientRole.BCC for message in messages)
    who = "who got a blind copy" if blind else session["agent_name"]
    facts = {
        "recipient": who if blind else ", ".join(dict.fromkeys(message["addressed"] for message in messages)),
        "reason": f"{who} is gone ({session['end_reason']}) and had not read it",
        "messages": ", ".join(str(message["seq"]) for message in messages[: notification_templates.SHOWN]) + more,
    }
    what = messages[0]["subject"] if len(messages) == 1 else f"{len(messages)} messages to {who}"
    letter = notification_templates.written(
        EventKind.MESSAGE_BOUNCED, f"Not delivered: {what}", facts, None, Importance.NORMAL
    )
    return replace(letter, thread_id=threads.pop() if len(threads) == 1 else None)
