"""A request that waits for its turn: changes wake it; its limit, or the end of its session or connection, ends it.

Nothing is polled. A waiting request looks again when something was stored, when the first lock in its way expires, and when
the heartbeat of its session and of its place in the queue is due.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import Connection

from corral.coordination.locks import table as lock_table
from corral.coordination.locks import waits as lock_waits
from corral.coordination.locks.api import MAX_WAIT_S
from corral.coordination.locks.table import LockRequest
from corral.coordination.locks.waits import Wait
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor, Speaker
from corral.core.errors import Conflict, DaemonUnreachable, InvalidInput, LockHeld
from corral.core.payload import Payload
from corral.store.engine.writes import Write
from corral.store.rows.sessions import LockRow

MAX_AWAITED = 100
"""Paths that one waits for at once."""
SIGN_OF_LIFE_S = lock_waits.PLACE_S / 3
_MARGIN_S = 0.005
"""Wait so much longer than the expiry of a lock, which is stored in milliseconds."""


async def acquire(
    actor: Actor, lock_request: LockRequest, wait_s: float, hung_up: Callable[[], Awaitable[Any]] | None = None
) -> tuple[str, list[LockRow]]:
    """Reserve all the keys, now or when it is this request's turn; the name of the session, and the locks that it got.

    Args:
        actor: The session that asks.
        wait_s: At most so long; 0: now or not at all.
        hung_up: Waits until nobody is there to hear the answer any more; called where there is something to wait for.

    Raises:
        LockHeld: They were not free within the time; nothing was taken.
        Conflict: The session ended meanwhile, or its connection.
    """
    if not 0 <= wait_s <= MAX_WAIT_S:
        raise InvalidInput(f"Waiting for {wait_s:g} s is not possible.", remedy=f"Use 0 to {MAX_WAIT_S:g} s.")
    if wait_s and len(lock_request.keys) > MAX_AWAITED:
        raise InvalidInput(
            f"{len(lock_request.keys)} paths are too many to wait for.",
            cause=f"Each later request is compared with all of them; at most {MAX_AWAITED} are allowed.",
            remedy="Name a folder or a glob that covers them.",
        )
    services = actor.services
    now = services.now()

    def ask(conn: Connection, me: Speaker) -> tuple[str, list[LockRow] | Wait]:
        holder = me.holder
        taken, refused = lock_table.acquire_each(conn, lock_request, holder, now, whole=True)
        if refused and not wait_s:
            raise lock_table.held([row for conflicts in refused.values() for row in conflicts])
        return me.name, lock_waits.enter(conn, lock_request, holder, now) if refused else taken

    name, result = await actor.write_as(ask)
    if not isinstance(result, Wait):
        return name, result
    gone = asyncio.ensure_future(hung_up()) if hung_up is not None else None
    try:
        return name, await _turn(services, result, wait_s, gone)
    finally:
        if gone is not None:
            gone.cancel()
        # Not awaited: this also runs when the request was cancelled. Its storing wakes the sessions behind.
        services.db.submit([Write(lambda conn: lock_waits.leave(conn, result))], services.changes.announce)


async def _turn(services: Services, wait: Wait, wait_s: float, gone: asyncio.Future[Any] | None) -> list[LockRow]:
    deadline = time.monotonic() + wait_s
    alive_until = time.monotonic() + SIGN_OF_LIFE_S
    while True:
        # Listen before the look, so that no change falls between the two.
        change = asyncio.create_task(services.changes.next(SIGN_OF_LIFE_S))
        try:
            now = services.now()
            blocking = await services.store.read(lock_waits.blockers, wait=wait, now=now)
            if services.stopping:
                raise DaemonUnreachable(
                    "The daemon stops.", remedy="Ask again: the next command starts it, and the queue goes on."
                )
            if gone is not None and gone.done():
                raise Conflict("Nobody waits for the answer any more.", cause="The connection was closed.")
            if not blocking and (taken := await services.store.write(lock_waits.take, wait=wait, now=now)):
                return taken
            remaining = deadline - time.monotonic()
            if blocking and remaining <= 0:
                raise _too_long(blocking, wait_s)
            if time.monotonic() >= alive_until:
                alive_until = time.monotonic() + SIGN_OF_LIFE_S
                await services.store.write(lock_waits.stay, wait=wait, now=now)
            expiry = lock_waits.next_expiry(blocking)
            until = (expiry - now).total_seconds() + _MARGIN_S if expiry else remaining
            await asyncio.wait(
                {change} if gone is None else {change, gone},
                timeout=max(0.0, min(remaining, until, alive_until - time.monotonic())),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            change.cancel()


def _too_long(blocking: list[Payload], wait_s: float) -> LockHeld:
    refused = lock_table.held(blocking)
    return LockHeld(
        f"{refused.message[:-1]}, and was not free within {wait_s:g} s.", cause=refused.cause, details=refused.details
    )
