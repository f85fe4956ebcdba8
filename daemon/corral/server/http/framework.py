"""FastAPI, loaded when the first request comes that is not answered without it: it is a third of a daemon's start."""

from __future__ import annotations

import asyncio

from corral.app.runtime.services import Services
from corral.server.asgi import App, Receive, Scope, Send


class Framework:
    """ASGI: passes requests on to :mod:`corral.server.http.app`, once it is there.

    Args:
        services: The services that routes use.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._app: App | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with self._loading:
            if self._app is None:
                self._app = await self._services.work(lambda: _built(self._services))
        await self._app(scope, receive, send)


def _built(services: Services) -> App:
    from corral.server.http.app import build

    return build(services)
