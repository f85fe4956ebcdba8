"""One client's connection, bounded before it is authenticated: over TCP, every program on the machine can connect.

Until its headers are whole, a TCP connection may be neither slow nor long, and their number is limited; so a client that
opens hundreds and says nothing takes neither descriptors nor memory from the owner, who comes over the Unix socket.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from corral.client.wire import peer_uid
from corral.config.ownership import is_own
from corral.coordination.caller_process import Peer
from corral.core.asgi import App, Receive, Scope, Send, replayed, whole
from corral.core.errors import InvalidInput
from corral.core.routing import PEER
from corral.faces.http.access import refuse

HEADERS_S = 10.0
"""Seconds that a client over TCP has for the headers of a request."""
HEADERS_BYTES = 64 * 1024
MOST_OVER_TCP = 200
MOST_BODY_BYTES = 32 * 1024 * 1024


class TooLarge(InvalidInput):
    """A body above the limit; it is not read."""

    status = 413
    name = "too_large"
    default_cause = "Nothing that Corral stores is as large."
    default_remedy = "Send it in several requests."


class LimitedConnection(HttpToolsProtocol):
    """uvicorn's connection with bounds on what comes over TCP; over the Unix socket it is unchanged."""

    _deadline: asyncio.TimerHandle | None = None
    _bytes_of_headers = 0
    _in_headers = True
    _is_tcp = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or drop it at once: where there are too many, and over the Unix socket of another user."""
        super().connection_made(transport)
        self._peer = Peer(transport)
        self._is_tcp = self.server is not None and self.server[1] is not None
        if not self._is_tcp:
            if not _is_welcome(transport):
                transport.abort()
            return
        if (
            sum(isinstance(connection, LimitedConnection) and connection._is_tcp for connection in self.connections)
            > most_over_tcp()
        ):
            transport.abort()
        else:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the header timeout; the connection has ended."""
        self._headers_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the headers do not end."""
        super().data_received(data)
        if self._is_tcp and self._in_headers:
            self._bytes_of_headers += len(data)
            if self._bytes_of_headers > HEADERS_BYTES:
                self.transport.abort()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope[PEER] = self._peer  # type: ignore[literal-required]
        if self._is_tcp:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        """A request can be looked at."""
        self._headers_came()
        super().on_headers_complete()

    def _expect_headers(self) -> None:
        if self._deadline is None:
            self._in_headers, self._bytes_of_headers = True, 0
            self._deadline = self.loop.call_later(HEADERS_S, self.transport.abort)

    def _headers_came(self) -> None:
        self._in_headers = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _is_welcome(transport: asyncio.Transport) -> bool:
    """Whether the process at the other end of the Unix socket is this user's, or root's; the folder's mode says so too."""
    try:
        uid = peer_uid(transport.get_extra_info("socket"))
    except OSError:  # the client has closed it already
        return False
    return uid == 0 or is_own(uid)


def most_over_tcp() -> int:
    """How many connections over TCP are held at a time: a quarter of the descriptors that this process may have, at most."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OVER_TCP if soft == resource.RLIM_INFINITY else max(1, min(MOST_OVER_TCP, soft // 4))


class BoundedBodies:
    """ASGI: refuses a body that is too large before it is read; what has no length is read here, up to the bound."""

    def __init__(self, app: App) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        headers = dict(scope["headers"])
        if b"transfer-encoding" in headers:
            return self._unannounced(scope, receive, send)
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > MOST_BODY_BYTES:
            return refuse(send, _too_large())
        return self._app(scope, receive, send)

    async def _unannounced(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await whole(receive, MOST_BODY_BYTES)
        if len(body) > MOST_BODY_BYTES:
            await refuse(send, _too_large())
        else:
            await self._app(scope, replayed(body, receive), send)


def _too_large() -> TooLarge:
    return TooLarge(f"The body of the request is larger than {MOST_BODY_BYTES // 2**20} MB.")
