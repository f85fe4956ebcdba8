"""Every change as it happens, over HTTP: server-sent events from the log that each transition is written to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from pydantic import Field
from starlette.responses import StreamingResponse

from corral.coordination.services import Services
from corral.core.routing import EVERYONE, MACHINE, Header, Routes
from corral.store import events

router = Routes("events", scope=MACHINE, callers=EVERYONE)

HEARTBEAT_S = 15.0
"""How long the stream is silent at most."""
PAGE = 200
"""Events that are read at once: a slow reader holds no more of them here."""

_Id = Annotated[int, Field(ge=0, le=2**63 - 1)]


@router.get("/events", answer=str, media="text/event-stream")
async def stream(
    services: Services,
    after: _Id | None = None,
    last_event_id: Annotated[_Id | None, Header] = None,
) -> StreamingResponse:
    """Every event after ``Last-Event-ID`` or ``after``, in order, each once; without either, those from now on.

    Server-sent events, for as long as both sides want; `id` is the `event_id`.
    """
    known = last_event_id if last_event_id is not None else after
    start = known if known is not None else await services.store.read(events.newest)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(lines(services, start), media_type="text/event-stream", headers=headers)


async def lines(services: Services, after: int) -> AsyncGenerator[str, None]:
    """The stream after an event, line by line, until the daemon stops."""
    yield "retry: 1000\n\n"
    while not services.stopping:
        async with _next_write(services) as change:
            page = await services.store.read(events.listing, after_id=after, limit=PAGE)
            if not page and not await change:
                yield ": still here\n\n"
        for event in page:
            yield f"id: {event['event_id']}\ndata: {json.dumps(event)}\n\n"
            after = event["event_id"]


@contextlib.asynccontextmanager
async def _next_write(services: Services) -> AsyncIterator[asyncio.Task[bool]]:
    """A task that ends when something is written; it starts before the look, so that no write is missed."""
    change = asyncio.create_task(services.changes.next_write(HEARTBEAT_S))
    await asyncio.sleep(0)  # it waits from here on
    try:
        yield change
    finally:
        change.cancel()
