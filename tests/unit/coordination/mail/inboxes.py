"""What a session has in its inbox."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import Connection

from corral.coordination.mail import mailbox
from corral.store.rows.mail import InboxMessage


def inbox(conn: Connection, who: str | None, **which: Any) -> list[InboxMessage]:
    """Its messages with all their columns; they are texts only where that is asked for."""
    return cast("list[InboxMessage]", list(mailbox.inbox(conn, who, **which)))
