"""Contacts, as Agent Mail has them: inside a repository everybody may write to everybody, so what is asked for is granted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from sqlalchemy import Connection

from corral.coordination.mail import addresses
from corral.coordination.mail.addresses import Identity
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions.store import sessions
from corral.core.errors import InvalidInput
from corral.core.payload import Payload
from corral.core.states import SessionStatus

Policy = Literal["open", "auto", "contacts_only", "block_all"]
POLICIES: tuple[str, ...] = get_args(Policy)
REQUEST_S = 7 * 24 * 3600
CONTACT_S = 30 * 24 * 3600
"""Seconds that a request and a contact last where Agent Mail grants them; here they never end."""
NOTHING_CHANGED = {
    "note": "Contacts are open in this repository: everybody may write to everybody. Nothing was changed."
}


def request(conn: Connection, me: Identity, to: str) -> Payload:
    """Ask to write to an agent: ``{from, to, status, expires_at}``.

    Raises:
        AgentNotFound: Nobody goes by that name.
    """
    other = addresses.known(conn, to)
    return {"from": me.name, "to": other["called"], "status": "approved", "expires_at": None}


def respond(conn: Connection, me: Identity, to: str) -> Payload:
    """Answer a request for contact: ``{from, to, approved, expires_at, updated, note}``, as it is and stays: open.

    Raises:
        AgentNotFound: Nobody goes by that name.
    """
    other = addresses.known(conn, to)
    return {
        "from": other["called"],
        "to": me.name,
        "approved": True,
        "expires_at": None,
        "updated": 0,
    } | NOTHING_CHANGED


def listing(conn: Connection, session_id: str, *, blind: bool = True) -> Iterator[Payload]:
    """With whom a session has exchanged mail, the latest first: :class:`corral.coordination.mail.api.Contact`.

    Args:
        blind: Blind copies among it: for itself only.
    """
    for partner in message_rows.last_between(conn, session_id, blind=blind):
        row = sessions.get(conn, partner["session_id"])
        assert row is not None
        alive = row["status"] != SessionStatus.DISCONNECTED
        yield {"to": row["agent_name"], "status": "approved", "active": alive, "updated_at": partner["at"]}


def choose(me: Identity, policy: str) -> Payload:
    """Say who may write to one: ``{agent, policy, note}``, as it is and stays: open.

    Raises:
        InvalidInput: There is no such policy.
    """
    if policy not in POLICIES:
        raise InvalidInput(f"{policy[:40]!r} is not a policy.", remedy=f"Use one of: {', '.join(POLICIES)}.")
    return {"agent": me.name, "policy": POLICIES[0], **NOTHING_CHANGED}
