"""SQL for heartbeats."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from corral.store.schema_coordination import message_recipients, messages


def last_mail_at(conn: Connection, session_id: str) -> str | None:
    """When a session last sent, read or acknowledged a message; None if it never did."""
    sent = select(func.max(messages.c.created_at)).where(messages.c.sender_session_id == session_id)
    received = message_recipients.c.session_id == session_id
    read = select(func.max(message_recipients.c.read_at)).where(received)
    acknowledged = select(func.max(message_recipients.c.acknowledged_at)).where(received)
    return max((at for query in (sent, read, acknowledged) if (at := conn.execute(query).scalar())), default=None)
