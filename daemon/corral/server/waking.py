"""Waking the sessions that rest in a terminal: beside each a hook of the client waits here until mail for it comes.

One look serves all that wait. It is taken when something was stored that may be mail, and when another one begins to wait;
where that happens all the time, looks are ``PAUSE_S`` apart. While nothing happens it costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from corral.coordination import mailing
from corral.errors import CorralError
from corral.models.states import Importance, SessionStatus
from corral.observe.logs import logger
from corral.server.services import Services
from corral.store import messages as mail_rows
from corral.store import sessions as session_rows

PAUSE_S = 0.2
"""Between two looks, seconds."""
AWHILE_S = 300.0
log = logger("waking")


@dataclass(eq=False)
class _Waiter:
    client: int
    session_id: str
    stirred: asyncio.Event = field(default_factory=asyncio.Event)


class Waiters:
    """The hooks that wait at one daemon, one for each client process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiters: dict[int, _Waiter] = {}
        self._looking: asyncio.Task[None] | None = None

    async def mail(self, client: int, session_id: str, gone: asyncio.Future[Any]) -> list[str]:
        """Wait for mail to the session that rests in a client, and hand it over: then the session is at work.

        Args:
            client: The client's process id. Its session of the moment is served: after ``/clear`` that is another one.
            session_id: The session that began to wait; served where nobody knows the process of it.
            gone: Done when whoever waits has gone.

        Returns:
            What the session is told; nothing if it is not to wait any longer: another one waits in its place, or the
            daemon stops.
        """
        me = _Waiter(client, session_id)
        former, self._waiters[client] = self._waiters.get(client), me
        if former is not None:
            former.stirred.set()
        gone.add_done_callback(lambda _gone: me.stirred.set())
        self._look_soon()
        try:
            while True:
                await me.stirred.wait()
                me.stirred.clear()
                if gone.done() or self._services.stopping or self._waiters.get(client) is not me:
                    return []
                now, wanted = self._services.now(), self._wanted()
                if told := await self._services.write(partial(_hand_over, waiter=me, wanted=wanted, now=now)):
                    return told
        finally:
            if self._waiters.get(client) is me:
                del self._waiters[client]
            if not self._waiters and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def _wanted(self) -> list[str]:
        """The importances that wake."""
        least, known = self._services.settings().messages.wake, Importance.values()
        return list(known[known.index(least) :]) if least in known else []

    def _look_soon(self) -> None:
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        else:
            self._services.changed()

    async def _look(self) -> None:
        """Stir those for whom mail has come, and all of them when the daemon stops."""
        while not self._services.stopping:
            change = asyncio.create_task(self._services.next_change(AWHILE_S))
            try:
                for waiter in await self._due():
                    waiter.stirred.set()
                await asyncio.sleep(PAUSE_S)
                await change
            finally:
                change.cancel()
        for waiter in self._waiters.values():
            waiter.stirred.set()

    async def _due(self) -> list[_Waiter]:
        waiting, wanted = list(self._waiters.values()), self._wanted()
        clients, session_ids = [one.client for one in waiting], [one.session_id for one in waiting]
        try:
            found = await self._services.read(lambda conn: mail_rows.at_rest(conn, clients, session_ids, wanted))
        except CorralError as error:  # nobody is to lose its place because one query failed
            log.warning("not_looked", reason=error.message)
            return []
        due = {value for row in found for value in row.values()}
        return [one for one in waiting if {one.client, one.session_id} & due]


def _hand_over(conn: Connection, waiter: _Waiter, wanted: Sequence[str], now: datetime) -> list[str]:
    """Mark the mail as told and the session as at work, in one transaction: what woke it once does not wake it again."""
    for row in mail_rows.at_rest(conn, [waiter.client], [waiter.session_id], wanted)[:1]:
        session_rows.change(conn, row["session_id"], {"status": SessionStatus.ACTIVE, "waiting_for": None})
        return mailing.deliver(conn, row["session_id"], now)
    return []


_WAITERS: WeakValueDictionary[str, Waiters] = WeakValueDictionary()


def waiters(services: Services) -> Waiters:
    """Those who wait at this daemon; whoever waits keeps them."""
    return _WAITERS.setdefault(str(services.project.home), Waiters(services))
