"""Sessions that no process proves: a client over HTTP is known by a token that only it got.

The id of such a session is a digest of its token. So the token proves its session after every restart and is stored nowhere, and
whoever reads the id, which everybody may, learns nothing that proves anything.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from corral.coordination.sessions.registry import BY_HTTP, SILENT
from corral.core.states import SessionStatus
from corral.store.rows.sessions import SessionRow

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_DIGITS = 32
PREFIX = f"{BY_HTTP}-"
"""Begins the ids of these sessions."""
ARGUMENTS = ("registration_token", "sender_token", "agent_token", "requester_registration_token")
"""The arguments of any tool, and of addresses of resources, that prove who calls over HTTP, as Agent Mail names them.

Over a bridge they have no effect.
"""


def make_token() -> str:
    """A new token, of 256 bits."""
    return secrets.token_urlsafe(32)


def session_of(token: str) -> str | None:
    """The id of the session that a token proves, whether it is registered or not; None: the text cannot be a token."""
    return session_of_program(token) if _TOKEN.fullmatch(token) else None


def session_of_program(token: str) -> str:
    """The id of the session of whoever has the daemon's own token, and shows no other."""
    return PREFIX + hashlib.sha256(token.encode()).hexdigest()[:_DIGITS]


def is_proven_by_token(session_id: str | None) -> bool:
    """Whether a session's id is the digest of a token, which then has to prove it."""
    return session_id is not None and session_id.startswith(PREFIX)


def was_closed(row: SessionRow | None) -> bool:
    """Whether somebody ended a session. One that was only silent goes on with the next call of its client."""
    return row is not None and row["status"] == SessionStatus.DISCONNECTED and row["end_reason"] != SILENT
