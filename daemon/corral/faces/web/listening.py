"""The port of the web view: opened when a person asks for the page, and again by the next daemon while a session lasts."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import uvicorn

from corral.coordination.services import Services
from corral.core.asgi import App
from corral.core.instants import iso
from corral.core.logs import logger
from corral.faces.web.api import Link
from corral.faces.web.entry import Answerer, Entry
from corral.faces.web.sessions import LINK_S, BrowserSessions

KEPT_IN = "web.json"
"""In ``.corral/run``."""
log = logger("web")


class WebView:
    """The web view of a daemon.

    Args:
        app: Answers requests that do not come by the port of the pages.
    """

    def __init__(self, app: App, services: Services) -> None:
        self._services = services
        self._sessions = BrowserSessions(services.project.run_dir / KEPT_IN)
        self._loading = asyncio.Lock()
        self._pages: Answerer | None = None
        self._server: uvicorn.Server | None = None
        self.entry = Entry(app, services, self._sessions, self._load)

    async def attach(self, server: uvicorn.Server) -> None:
        """Serve with a server that has started; pages of the daemon before find their port again."""
        self._server = server
        self._services.bring(self)
        if self._sessions.any_open(self._services.now()):
            await self._listen(only_former=True)

    async def open(self) -> Link:
        """A new link. Listens from now on."""
        await self._listen()
        now = self._services.now()
        url = f"http://127.0.0.1:{self.entry.port}/enter?key={self._sessions.new_link(now)}"
        return {"url": url, "expires_at": iso(now + timedelta(seconds=LINK_S))}

    async def _listen(self, *, only_former: bool = False) -> None:
        async with self._loading:
            if self.entry.port is not None or self._server is None:
                return
            config = self._server.config
            protocol_class: Any = config.http_protocol_class
            state = self._server.lifespan.state
            protocol = functools.partial(
                protocol_class, config=config, server_state=self._server.server_state, app_state=state
            )
            listening = await _bound(protocol, self._sessions.port, only_former=only_former)
            if listening is None:
                log.warning("web_port_taken", port=self._sessions.port)
                return
            self._server.servers.append(listening)
            self.entry.port = listening.sockets[0].getsockname()[1]
            self._sessions.listens_on(self.entry.port)
            log.info("web_view_open", port=self.entry.port)

    async def _load(self) -> Answerer:
        async with self._loading:
            if self._pages is None:
                self._pages = await self._services.work(lambda: _pages(self._services, self._sessions))
            return self._pages


async def _bound(protocol: Callable[[], Any], port: int, *, only_former: bool) -> asyncio.Server | None:
    """Listen on a loopback port, on any free one if it is taken; None: it is taken, and no other one is wanted."""
    loop = asyncio.get_running_loop()
    for candidate in dict.fromkeys((port, 0)):
        if candidate == 0 and only_former:
            return None
        try:
            return await loop.create_server(protocol, "127.0.0.1", candidate)
        except OSError:
            if candidate == 0:
                raise
    return None


def _pages(services: Services, sessions: BrowserSessions) -> Answerer:
    from corral.faces.web.addresses import Pages  # Jinja2 and the pages: only who opens one pays for them

    return Pages(services, sessions)
