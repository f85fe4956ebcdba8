"""FastAPI, loaded when the first request comes that is not answered without it: it is a third of a daemon's start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from corral.coordination.services import Services
from corral.core.asgi import App, Receive, Scope, Send
from corral.core.routing import Routes


class Framework:
    """ASGI: passes requests on to :mod:`corral.faces.http.app`, once it is there.

    Args:
        services: The services that operations use.
        nouns: Imports the operations of the nouns.
    """

    def __init__(self, services: Services, nouns: Callable[[], Iterable[Routes]]) -> None:
        self._services = services
        self._nouns = nouns
        self._app: App | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with self._loading:
            if self._app is None:
                self._app = await self._services.work(self._built)
        await self._app(scope, receive, send)

    def _built(self) -> App:
        from corral.faces.http.app import build

        return build(self._services, self._nouns())
