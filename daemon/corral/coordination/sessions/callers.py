"""The session that a request acts for: the one that it names, or that of the person at the keyboard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, Field
from sqlalchemy import Connection

from corral.coordination.mail import addresses
from corral.coordination.mail.addresses import Identity
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor, Speaker
from corral.coordination.sessions.impersonation import refusals
from corral.core.identifiers import LONGEST_SESSION_ID, check_session_id

T = TypeVar("T")
SessionId = Annotated[str, Field(max_length=LONGEST_SESSION_ID), AfterValidator(check_session_id)]
"""The id of a session where none is registered by it; where one is,
:func:`corral.coordination.sessions.registry.register` looks."""


class Caller(BaseModel):
    """The session that acts, and its name if it has several."""

    session_id: str | None = Field(None, max_length=128)
    name: str | None = Field(None, max_length=128)


async def act(services: Services, who: Caller, operation: Callable[[Connection, Identity, datetime], T]) -> T:
    """Run a write as the session that acts, registered if it is new; another's name is refused and put on record."""
    now = services.now()

    def run(conn: Connection, me: Speaker) -> T:
        own = Identity(me.holder.session_id, me.name)
        meant = addresses.identity(conn, own.session_id, who.name) if who.name is not None else own
        return operation(conn, meant, now)

    async with refusals(services, who.session_id):
        done = await Actor(services, who.session_id).write_as(run)
    services.changes.announce()
    return done
