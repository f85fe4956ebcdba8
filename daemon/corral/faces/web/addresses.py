"""The pages by their addresses, and the edge where an error becomes a page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import HTMLResponse, RedirectResponse, Response

from corral.coordination.services import Services
from corral.core.asgi import Receive, Scope, Send
from corral.core.errors import NOT_IN_THIS_VERSION, CorralError, DatabaseDamaged, NotFound
from corral.core.failures import failure
from corral.core.needs import count
from corral.faces.web import actions, live
from corral.faces.web.pages import merges, overview, queue, sessions, tasks, timeline
from corral.faces.web.rendering import FOLDER, Visit, render
from corral.faces.web.sessions import BrowserSessions
from corral.observe.view.needs_you import needs_you

AT_ONCE = 4
"""Pages that are made at a time: hooks and workers are answered between them, however many browsers are open."""
STATIC = {
    "page.css": "text/css", "live.mjs": "text/javascript", "keys.mjs": "text/javascript", "icon.svg": "image/svg+xml",
}  # fmt: skip
NAV = (("/", "Now"), ("/tasks", "Tasks"), ("/queue", "Queue"), ("/sessions", "Sessions"), ("/timeline", "Timeline"))
KEYS = (
    ("j k", "the next row, the one before"),
    ("Enter", "open it"),
    ("a", "look at a change, and approve it"),
    ("r", "retry a task or a merge request"),
    ("d", "dismiss: nothing more is to be done about it; asks first"),
    ("c", "cancel a task, or take a request out of the queue; asks first"),
    ("x", "release a lock; asks first"),
    ("l", "go to the log"),
    ("m", "write to the session"),
    ("v", "view the diff"),
    ("+ -", "change the priority"),
    ("y Esc", "where it asks: yes, or leave it as it is"),
    ("1 … 5", "the pages, from Now to Timeline"),
    ("?", "this list"),
)
"""What ``static/keys.mjs`` does, for the list that ``?`` shows."""
DONE = {
    "cancel": "Cancelled. A worker that runs is being ended.",
    "retry": "It is tried again.",
    "reprioritize": "The priority was changed.",
    "approve": "Approved. It is verified now, and lands if that passes.",
    "dismiss": "Dismissed.",
    "revert": "The revert is queued; its page is linked below.",
    "skip": "It went to the back of its queue.",
    "bypass": "It lands without a verification, unless something else keeps it.",
    "release": "The lock was released.",
    "message": "The message was sent.",
}
_ID = r"(?P<item_id>[^/]{1,128})"

Page = Callable[[Services, Visit, str], Awaitable[dict[str, Any] | Response]]


@dataclass(frozen=True)
class Address:
    """A page: its path, the function that makes its values, and its template."""

    pattern: re.Pattern[str]
    make: Page
    template: str
    method: str = "GET"


def _address(path: str, make: Page, template: str = "", method: str = "GET") -> Address:
    return Address(re.compile(path), make, template, method)


ADDRESSES = (
    _address("/", overview.page, "overview.html"),
    _address("/tasks", tasks.listing, "tasks.html"),
    _address(f"/tasks/{_ID}", tasks.page, "task.html"),
    _address(f"/tasks/{_ID}/diff", merges.of_task, "diff.html"),
    _address("/queue", queue.page, "queue.html"),
    _address(f"/merges/{_ID}", merges.page, "merge.html"),
    _address(f"/merges/{_ID}/diff", merges.of_merge, "diff.html"),
    _address("/sessions", sessions.listing, "sessions.html"),
    _address(f"/sessions/{_ID}", sessions.page, "session.html"),
    _address("/timeline", timeline.page, "timeline.html"),
    _address("/(?:tasks|merges|locks|sessions)/[^/]{1,128}/[a-z]+", actions.ask, "confirm.html"),
    _address("/(?:tasks|merges|locks|sessions)/[^/]{1,128}/[a-z]+", actions.act, "confirm.html", "POST"),
)


class Pages:
    """Answers the requests that the entry accepted.

    Args:
        sessions: To end one, and to end its streams with it.
    """

    def __init__(self, services: Services, sessions: BrowserSessions) -> None:
        self._services = services
        self._sessions = sessions
        self._streams = live.Streams(services, sessions)
        self._making = asyncio.Semaphore(AT_ONCE)

    async def answer(self, visit: Visit, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await self._response(visit)
        scope: Scope = {"type": "http", "method": visit.method, "headers": [*visit.headers.items()]}
        await response(scope, receive, send)

    async def _response(self, visit: Visit) -> Response:
        try:
            if visit.path == "/live":
                return await self._streams.open(visit)
            if visit.path.startswith("/static/"):
                return await self._static(visit.path.removeprefix("/static/"))
            if visit.path == "/leave" and visit.method == "POST":
                self._sessions.end(visit.secret)
                return RedirectResponse("/", 303)
            async with self._making:
                return await self._page(visit)
        except CorralError as error:
            return await self._error(visit, error)
        except Exception as error:  # noqa: BLE001 - the edge: logged, and told
            return await self._error(visit, failure(visit.method, visit.path, error))

    async def _page(self, visit: Visit) -> Response:
        method = "GET" if visit.method == "HEAD" else visit.method
        for address in ADDRESSES:
            match = address.pattern.fullmatch(visit.path)
            if match is None or address.method != method:
                continue
            values = await address.make(self._services, visit, match.groupdict().get("item_id", ""))
            if isinstance(values, Response):
                return values
            values["needs"] = await self._needs()
            return HTMLResponse(await self._rendered(address.template, visit, values))
        raise NotFound("There is no such page.", cause=NOT_IN_THIS_VERSION, remedy="Go to the first page.")

    async def _needs(self) -> int:
        """How many conditions need a person; every page says so."""
        try:
            return count(await self._services.store.read(needs_you, self._services))
        except DatabaseDamaged:
            return len(self._services.faults)

    async def _rendered(self, template: str, visit: Visit, values: dict[str, Any]) -> str:
        common = {
            "root": str(self._services.project.root),
            "project": self._services.project.root.name,
            "now": self._services.now(),
            "token": visit.token,
            "path": visit.path,
            "nav": NAV,
            "keys": KEYS,
            "done": DONE.get(visit.query.get("done", "")),
            "live": "",
            "needs": 0,
        }
        return await self._services.work(lambda: render(template, **{**common, **values}))

    async def _static(self, name: str) -> Response:
        if name not in STATIC:
            raise NotFound("There is no such file.", cause=NOT_IN_THIS_VERSION, remedy="Go to the first page.")
        content = await self._services.work((FOLDER / "static" / name).read_bytes)
        return Response(content, media_type=STATIC[name])

    async def _error(self, visit: Visit, error: CorralError) -> Response:
        wire = error.to_wire()["error"]
        return HTMLResponse(await self._rendered("error.html", visit, {"error": wire}), error.status)
