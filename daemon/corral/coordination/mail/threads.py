"""Summaries of threads, for a session that joins one."""

from __future__ import annotations

from sqlalchemy import Connection

from corral.coordination.mail.store import mailbox
from corral.core.payload import Payload

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
