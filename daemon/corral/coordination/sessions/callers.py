"""The session that a request acts for: the one that it names, or that of the person at the keyboard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection

from corral.coordination.mail import addresses
from corral.coordination.mail.addresses import Identity
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor, Speaker
from corral.coordination.sessions.api import Caller
from corral.coordination.sessions.claims import refusals

T = TypeVar("T")


async def act(services: Services, caller: Caller, operation: Callable[[Connection, Identity, datetime], T]) -> T:
    """Run a write as the session that acts, registered if it is new; another's name is refused and put on record."""
    now = services.now()

    def run(conn: Connection, me: Speaker) -> T:
        own = Identity(me.holder.session_id, me.name)
        identity = addresses.identity(conn, own.session_id, caller.name) if caller.name is not None else own
        return operation(conn, identity, now)

    async with refusals(services, caller.session_id):
        result = await Actor(services, caller.session_id).write_as(run)
    services.changes.announce()
    return result
