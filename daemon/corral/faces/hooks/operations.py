"""Hook events over HTTP, and the connection that a bridge holds while it lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from corral.coordination.mail import mailing
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.services import Services
from corral.coordination.sessions import claims, session_end
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.processes import is_running
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import DaemonUnreachable, LimitReached
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.routing import HERE, MACHINE, PEER, Routes
from corral.faces.hooks import events as hooks
from corral.faces.hooks import payloads as hook_events
from corral.faces.hooks.api import Bridge, Brought, HookAnswer, HookPayload, Offered, StopPayload, Woken
from corral.faces.hooks.payloads import HookEvent
from corral.observe.metrics.latencies import Latencies

PAUSE_S = 0.5
LOST = timedelta(seconds=2)
"""How long a session without its bridge may take to end, or to start another bridge, before it is unguarded."""
router = Routes("hooks", scope=MACHINE, callers=HERE)


@router.post("/hooks/{event}", finds=False, audited=False, answer=HookAnswer, errors=(LimitReached,))
async def hook(services: Services, request: Request, event: str, payload: HookPayload) -> Payload:
    """One event of a Claude Code session; the answer is what the hook prints."""
    began = time.perf_counter()
    payload = _of_here(request, payload)
    await _check(services, request, hook_events.read(event, payload, services.now()))
    answer = await hooks.answer(services, event, payload)
    services.of(Latencies).count(time.perf_counter() - began)
    return answer


def _of_here(request: Request, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload, with the id that its client has here."""
    peer, origin = request.scope.get(PEER), payload.get("_hook")
    if peer is None or not isinstance(origin, Mapping):
        return payload
    named = origin.get("pid")
    pid = peer.here(named)
    return payload if pid == named else {**payload, "_hook": {**origin, "pid": pid}}


async def _check(services: Services, request: Request, event: HookEvent) -> None:
    """Refuse an event that another session's process sends in the name of this one."""
    ids = dict.fromkeys((event.actor, event.session_id))
    await claims.check_event(services, request.scope, [*ids], event.client_pid)


@router.post("/hooks/Stop/wait", audited=False, errors=(DaemonUnreachable,))
async def wait(services: Services, request: Request, payload: StopPayload) -> Woken:
    """Held open beside a session of a terminal that stopped, until mail for it comes: ``{"text": …}`` to wake it with.

    ``{}``: another one waits in its place; 503: the daemon stops.
    """
    event = hook_events.read("Stop", _of_here(request, payload), services.now())
    await _check(services, request, event)
    if event.client_pid is None or services.mods.is_there(event.session_id):
        return {}
    if event.unheard is not None:
        lost = partial(_unwake, event=event, client=event.client_pid, begin=event.unheard[0], end=event.unheard[1])
        await services.store.write(lost)
    gone = asyncio.create_task(_hung_up(request.receive))
    try:
        texts = await services.waiters.mail(event.client_pid, event.actor, gone)
    finally:
        gone.cancel()
    if services.stopping and not texts:
        raise DaemonUnreachable("The daemon stops.")
    return {"text": "\n".join(texts)} if texts else {}


def _unwake(conn: Connection, event: hook_events.HookEvent, client: int, begin: datetime, end: datetime) -> None:
    """The hook that waits beside a client never got the mail that it was to wake its session with."""
    sessions = {event.actor, *(row["session_id"] for row in session_rows.of_processes(conn, [client]))}
    message_rows.put_back_woken(conn, sessions, iso(begin), iso(end))


@router.post("/hooks/Mail/wait", audited=False, errors=(DaemonUnreachable,))
async def wait_for_mail(services: Services, request: Request, payload: StopPayload) -> Offered:
    """Held open by the mod of a session, until mail for it comes: ``{"messages": […], "text": …}``, which it brings to its model.

    The mail stays unread until the mod says that it was told. ``{}``: another one waits in its place, or, with ``leaves``, none
    waits any more; 503: the daemon stops.
    """
    event = hook_events.read("Mail", _of_here(request, payload), services.now())
    await _check(services, request, event)
    services.mods.spoke(event.session_id)
    if payload.get("leaves") is True:
        services.waiters.leave(event.client_pid or 0)
        return {}
    services.mods.offer_ended(event.actor)
    gone = asyncio.create_task(_hung_up(request.receive))
    try:
        session_id, numbers, texts = await services.waiters.offer(
            event.client_pid or 0, event.actor, gone, wakes=payload.get("wakes") is True
        )
    finally:
        gone.cancel()
    if not texts:
        if services.stopping:
            raise DaemonUnreachable("The daemon stops.")
        return {}
    services.mods.offered(session_id, services.now())
    return {"session_id": session_id, "messages": numbers, "text": "\n".join(texts)}


@router.post("/hooks/Mail/told", audited=False)
async def told(services: Services, request: Request, brought: Brought) -> HookAnswer:
    """The mod of a session says that its model was told the mail that it took, and which way."""
    now = services.now()
    await claims.check_event(services, request.scope, [brought.session_id])
    await services.store.write(mailing.brought, brought.session_id, brought.messages, brought.way, now)
    services.mods.offer_ended(brought.session_id)
    return {}


class Held(Response):
    """An answer that stays open until the other side is gone, or the daemon stops.

    A streaming response of the framework is of no use here: it is cancelled when the other side goes, and whatever
    would have to be stored then is cancelled with it.
    """

    def __init__(self, services: Services, closed: Callable[[], Awaitable[None]]) -> None:
        super().__init__(media_type="application/octet-stream")
        del self.headers["content-length"]
        self._services = services
        self._closed = closed
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    def tell(self, line: str) -> None:
        """Send a line to the other side, without waiting for it."""
        self._lines.put_nowait(line)

    async def _speak(self, send: Send) -> None:
        while True:
            line = await self._lines.get()
            await send({"type": "http.response.body", "body": f"{line}\n".encode(), "more_body": True})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it."""
        gone, speaking = asyncio.create_task(_hung_up(receive)), list[asyncio.Task[None]]()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b"\n", "more_body": True})
            speaking.append(asyncio.create_task(self._speak(send)))
            while not gone.done() and not self._services.stopping:
                change = asyncio.create_task(self._services.changes.next(300.0))
                await asyncio.wait({gone, change}, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if not self._services.stopping:  # changes are frequent: one look serves many
                    await asyncio.wait({gone}, timeout=PAUSE_S)
        finally:
            for task in (gone, *speaking):
                task.cancel()
            await self._closed()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@router.get("/bridge", answer=str, media="application/octet-stream", changes=True, audited=False)
async def bridge(services: Services, request: Request, opened: Bridge) -> Held:
    """Held open by a session's MCP bridge while it lives; its end tells that the session is unguarded, or gone."""
    await claims.check_event(services, request.scope, [opened.session], opened.client)
    services.runtime.bridge_opened(opened.pid, opened.session, opened.client)

    async def closed() -> None:
        services.mods.unlisten(opened.pid, held.tell)
        served = services.runtime.bridge_closed(opened.pid)
        if served and not services.stopping:
            await _bridge_lost(services, served, opened.client)

    held = Held(services, closed)
    services.mods.listen(opened.pid, opened.client, held.tell)
    return held


async def _bridge_lost(services: Services, session_id: str, client: int) -> None:
    now = services.now()
    if await services.store.write(_connection_ended, session_id, now, services.offer_again):
        services.nudge("supervisor")
        return
    if is_running(client, None):  # a session that ends closes its bridge just before its SessionEnd event
        services.runtime.await_bridge(session_id, client, now + LOST)
    services.nudge("sessions")


def _connection_ended(conn: Connection, session_id: str, now: datetime, offer: session_end.Offer) -> bool:
    """End the session of this connection; False if the session is a client's."""
    row = session_rows.get(conn, session_id)
    return (
        row is not None
        and row["agent_type"] == session_registry.CONNECTION
        and session_end.end(conn, session_id, "closed", now, offer) is not None
    )
