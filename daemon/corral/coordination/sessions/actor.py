"""The session that a request acts for: the one that it names, or that of the person at the keyboard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from corral.config.account import user_name
from corral.coordination.locks.table import Holder
from corral.coordination.services import Services
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import BY_HTTP, Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.instants import iso

T = TypeVar("T")
PERSON = "person"
"""The session that acts when no Claude Code session asks: the person at the keyboard."""


@cache
def person() -> str:
    """The id of the session of the person at the keyboard: the user who runs the daemon."""
    return f"{PERSON}-{user_name()}"


class Speaker(NamedTuple):
    """The session that a request acts for; ``arrived``: it was not alive before."""

    holder: Holder
    name: str
    arrived: bool


def speaker(conn: Connection, session_id: str | None, now: datetime) -> Speaker:
    """Find, or register, the session that a request acts for: the person's own where the request names none."""
    acting_id = session_id or person()
    row = session_rows.touch(conn, acting_id, iso(now))
    arrived = row is None
    if row is None:
        kind, name = ("claude", None) if session_id else (PERSON, user_name())
        kind = BY_HTTP if acting_id.startswith(f"{BY_HTTP}-") else kind
        row = session_registry.register(conn, Arrival(session_id=acting_id, agent_type=kind, agent_name=name), now)
    holder = Holder(session_id=acting_id, task_id=row["task_id"], kin=session_registry.kin_of(row))
    return Speaker(holder, row["agent_name"], arrived)


@dataclass(frozen=True)
class Actor:
    """The caller of a request over HTTP. An MCP call knows more about its caller.

    Attributes:
        session_id: The session that the request names; None: the person at the keyboard.
    """

    services: Services
    session_id: str | None = None

    def speaker(self, conn: Connection, now: datetime) -> Speaker:
        """Find, or register, the session that acts: in the transaction of what it does."""
        return speaker(conn, self.session_id, now)

    async def write(self, operation: Callable[[Connection, Holder], T]) -> T:
        """Run a write as the session that acts."""
        return await self.write_as(lambda conn, me: operation(conn, me.holder))

    async def write_as(self, operation: Callable[[Connection, Speaker], T]) -> T:
        """The same, for what needs the session's name too."""
        now = self.services.now()
        arrived = False

        def run(conn: Connection) -> T:
            nonlocal arrived
            me = self.speaker(conn, now)
            arrived = me.arrived
            return operation(conn, me)

        result = await self.services.store.write(run)
        if arrived:  # from now on the job looks at it regularly
            self.services.nudge("sessions")
        return result
