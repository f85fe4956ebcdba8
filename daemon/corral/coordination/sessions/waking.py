"""Waking the sessions that rest in a terminal: beside each a hook of the client waits here until mail for it comes.

One look serves all that wait. It is taken when something was stored that may be mail, and where that happens all the time once
in ``PAUSE_S``. While nothing happens it costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.coordination.mail import mailing
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import CorralError
from corral.core.instants import parse
from corral.core.logs import logger
from corral.core.states import Importance, MailWay, SessionStatus
from corral.store.rows.mail import AwaitedSession

if TYPE_CHECKING:
    from corral.coordination.services import Services

PAUSE_S = 0.2
"""Between two looks, seconds."""
PATIENCE_S = 60.0
"""How long mail to a session at work is left to its other hooks, seconds."""
AWHILE_S = 300.0
log = logger("waking")


@dataclass(eq=False)
class _Waiter:
    client: int
    session_id: str
    is_mod: bool = False
    wakes: bool = True
    stirred: asyncio.Event = field(default_factory=asyncio.Event)


class Waiters:
    """The hooks that wait at one daemon, one for each client process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiters: dict[int, _Waiter] = {}
        self._looking: asyncio.Task[None] | None = None

    async def mail(self, client: int, session_id: str, gone: asyncio.Future[Any]) -> list[str]:
        """Wait for mail to the session that rests in a client, and hand it over: then the session is active.

        Args:
            client: The client's process id. Its session of the moment is served: after ``/clear`` that is another one.
            session_id: The session that began to wait; served where nobody knows the process of it.
            gone: Done when the waiting hook has gone.

        Returns:
            The text for the session; nothing if it is not to wait any longer: another hook waits in its place, or the
            daemon stops.
        """
        return (await self._wait(_Waiter(client, session_id), gone, _hand_over))[1]

    async def offer(
        self, client: int, session_id: str, gone: asyncio.Future[Any], *, wakes: bool
    ) -> tuple[str, list[int], list[str]]:
        """Wait for mail to a session and offer it to the session's mod: it stays unread until the mod says it was told.

        Args:
            client: As for :meth:`mail`.
            session_id: The session.
            gone: Done when the mod has gone.
            wakes: Whether it can wake the session. Without that, a task's mail is left to its hooks, and to its runner.

        Returns:
            The session, the numbers of the messages, and the text for it; no text where :meth:`mail` has none.
        """
        me = _Waiter(client, session_id, is_mod=True, wakes=wakes)
        numbers, texts = await self._wait(me, gone, _offer)
        return me.session_id, numbers, texts

    def leave(self, client: int) -> None:
        """End the wait of a client: it holds its exit up."""
        if (waiter := self._waiters.pop(client, None)) is not None:
            waiter.stirred.set()

    async def _wait(
        self, me: _Waiter, gone: asyncio.Future[Any], take: Callable[..., tuple[list[int], list[str]]]
    ) -> tuple[list[int], list[str]]:
        client = me.client
        former, self._waiters[client] = self._waiters.get(client), me
        if former is not None:
            former.stirred.set()
        gone.add_done_callback(lambda _gone: me.stirred.set())
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            while not gone.done() and not self._services.stopping and self._waiters.get(client) is me:
                now, importances = self._services.now(), self._waking_importances()
                taken = await self._services.store.write(take, waiter=me, importances=importances, now=now)
                if taken[1]:
                    return taken
                await me.stirred.wait()
                me.stirred.clear()
            return [], []
        finally:
            if self._waiters.get(client) is me:
                del self._waiters[client]
            if not self._waiters and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def _waking_importances(self) -> list[str]:
        """The importances of messages that wake a session."""
        least, importances = self._services.settings().messages.wake, Importance.values()
        return list(importances[importances.index(least) :]) if least in importances else []

    async def _look(self) -> None:
        """Wake the waiters for whom mail has come, and all of them when the daemon stops."""
        while not self._services.stopping:
            change = asyncio.create_task(self._services.changes.next(AWHILE_S))
            try:
                again_s = await self._stir()
                await asyncio.sleep(PAUSE_S)
                await asyncio.wait({change}, timeout=again_s)
            finally:
                change.cancel()
        for waiter in self._waiters.values():
            waiter.stirred.set()

    async def _stir(self) -> float | None:
        """Look once; returns after how many seconds to look again even if nothing changes."""
        waiting, importances, now = list(self._waiters.values()), self._waking_importances(), self._services.now()
        clients, session_ids = [waiter.client for waiter in waiting], [waiter.session_id for waiter in waiting]
        try:
            rows = await self._services.store.read(message_rows.waited_for, clients, session_ids, importances)
        except CorralError as error:  # a failed query must not end the waits
            log.warning("not_looked", reason=error.message)
            return PAUSE_S
        mods = {key for waiter in waiting if waiter.is_mod for key in (waiter.client, waiter.session_id)}
        delays = {
            row["session_id"]: 0.0 if {row["client_pid"], row["session_id"]} & mods else _delay_s(row, now)
            for row in rows
        }
        due = {row[key] for row in rows for key in ("session_id", "client_pid") if not delays[row["session_id"]]}
        for waiter in waiting:
            if {waiter.client, waiter.session_id} & due:
                waiter.stirred.set()
        return min(filter(None, delays.values()), default=None)


def _delay_s(row: AwaitedSession, now: datetime) -> float:
    """Seconds until mail to a session is due: none at rest; at work its hooks have ``PATIENCE_S`` to bring it.

    A turn that the person interrupted, and a bridge that died, look like work. If the session does work, the client tells its
    model in the middle of the turn.
    """
    if row["status"] == SessionStatus.IDLE:
        return 0.0
    return max(0.0, PATIENCE_S - (now - parse(row["since"])).total_seconds())


def _offer(conn: Connection, waiter: _Waiter, importances: Sequence[str], now: datetime) -> tuple[list[int], list[str]]:
    """The mail that waits for the session of a mod; it goes on waiting."""
    for row in message_rows.waited_for(conn, [waiter.client], [waiter.session_id], importances):
        waiter.session_id = row["session_id"]
        session = session_rows.get(conn, row["session_id"])
        if not waiter.wakes and session is not None and session["task_id"] is not None:
            continue
        return mailing.offer(conn, waiter.session_id)
    return [], []


def _hand_over(
    conn: Connection, waiter: _Waiter, importances: Sequence[str], now: datetime
) -> tuple[list[int], list[str]]:
    """Deliver the mail and mark the session as active, in one transaction, so that it wakes the session only once."""
    for row in message_rows.waited_for(conn, [waiter.client], [waiter.session_id], importances):
        if not _delay_s(row, now):
            if row["status"] == SessionStatus.IDLE:
                session_rows.change(conn, row["session_id"], {"status": SessionStatus.ACTIVE, "waiting_for": None})
            return [], mailing.deliver(conn, row["session_id"], MailWay.WAKE, now)
    return [], []
