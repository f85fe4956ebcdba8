"""The live stream of a page: a signal that something changed, and new text of a log. The number of streams is limited.

The stream carries no rows: a page that hears of a change fetches itself again. While nothing changes, an open page costs nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from urllib.parse import urlencode

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from corral.coordination.services import Services
from corral.core.errors import CorralError
from corral.core.logs import logger
from corral.core.run_heading import run_heading
from corral.core.visible import log_text, visible
from corral.faces.web.rendering import Visit
from corral.faces.web.sessions import BrowserSessions
from corral.landing import operations as merges
from corral.observe.events import operations as events
from corral.runners.stream import readable
from corral.work.tasks import operations as tasks

MOST_STREAMS = 64
"""Pages that are live at a time; a further one is told that it is not."""
LOG_WAIT_S = 10.0
"""Seconds that a look at a log waits for it to grow."""
LOG_PAUSE_S = 2.0
_NAMED = ("kind", "task_id", "merge_id", "session_id")

log = logger("web")


class Streams:
    """The live streams that are open.

    Args:
        sessions: A stream ends with its session.
    """

    def __init__(self, services: Services, sessions: BrowserSessions) -> None:
        self._services = services
        self._sessions = sessions
        self._open = 0

    async def open(self, visit: Visit) -> Response:
        """Begin a stream: after the event ``after``, and from byte ``offset`` on of the log that ``log`` names."""
        if self._open >= MOST_STREAMS:
            text = f"{MOST_STREAMS} pages are live already. This one does not change by itself: close others, or reload it."
            return PlainTextResponse(text, 503)
        if "probe" in visit.query:  # a page whose stream broke asks why
            return Response(status_code=204)
        after = _number(visit.headers.get(b"last-event-id") or visit.query.get("after", ""))
        lines = self._lines(visit, after, visit.query.get("log", ""))
        return StreamingResponse(lines, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _lines(self, visit: Visit, after: int, log_name: str) -> AsyncIterator[str]:
        self._open += 1
        parts: asyncio.Queue[str | None] = asyncio.Queue(maxsize=4)  # a slow browser holds no more of it here
        sources = [self._events(parts, after)]
        if log_name:
            sources.append(self._log(parts, log_name, _number(visit.query.get("offset", ""))))
        running = [asyncio.create_task(source) for source in sources]
        try:
            while (part := await parts.get()) is not None:
                if not self._sessions.is_open(visit.secret, self._services.now()):
                    yield "event: ended\ndata: \n\n"
                    return
                yield part
        finally:
            self._open -= 1
            for task in running:
                task.cancel()

    async def _events(self, parts: asyncio.Queue[str | None], after: int) -> None:
        try:
            async with aclosing(events.lines(self._services, after)) as coming:
                async for line in coming:
                    await parts.put(_without_rows(line))
        except CorralError as error:  # the database cannot be read: the page asks again
            log.warning("stream_ended", reason=error.message)
        await parts.put(None)

    async def _log(self, parts: asyncio.Queue[str | None], name: str, offset: int) -> None:
        """The rest of a log: of ``tasks/ID/ATTEMPT/RUNNER``, or of ``merges/ID/RUN`` and the runs that follow."""
        noun, item, *of_attempt = name.split("/") if "/" in name else (name, "")
        is_readable = of_attempt[1:] in (["claude"], ["anthropic"])
        number = _number(of_attempt[0]) if of_attempt else 0
        while True:
            heading = ""
            if noun == "tasks":
                part = await tasks.log(self._services, item, offset, LOG_WAIT_S, number or None)
                new, offset, complete = part.text, part.next_offset, part.complete
            else:
                of = await merges.log(self._services, item, offset, LOG_WAIT_S, None, str(number) if number else None)
                new, offset, complete, run = of["text"], of["next_offset"], of["complete"], of["run"]
                if run is not None and (run.number or 0) != number:
                    number, heading = run.number or 0, run_heading(run.model_dump())
            text = as_shown(heading + new, is_readable=is_readable)
            if text:
                await parts.put(f"event: log\ndata: {json.dumps({'text': text, 'offset': offset})}\n\n")
            if complete:
                return
            if not new:  # there may be no file yet, which is not waited for
                await self._services.changes.next(LOG_PAUSE_S)


def _without_rows(line: str) -> str:
    """An event for a page: its kind and ids, without its data."""
    head, mark, data = line.partition("\ndata: ")
    if not mark:  # a heartbeat, or the retry interval
        return line
    event = json.loads(data)
    return f"{head}\nevent: change\ndata: {json.dumps({name: event[name] for name in _NAMED})}\n\n"


def as_shown(text: str, *, is_readable: bool) -> str:
    """Output of a program as a page shows it: without control characters; of a model's stream, what it says."""
    return visible(log_text(readable(text) if is_readable else text, colours=False))


def following(seq: int, **log: str | int) -> str:
    """The address of the stream of a page that shows everything up to an event."""
    return f"/live?{urlencode({'after': seq, **log})}"


def _number(text: str | bytes) -> int:
    digits = text.decode("latin-1") if isinstance(text, bytes) else text
    return int(digits) if digits.isdecimal() and len(digits) < 18 else 0
