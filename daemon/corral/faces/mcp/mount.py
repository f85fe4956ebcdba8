"""Where MCP is reached: ``/mcp`` (``?profile=``), and ``/api/`` for clients of Agent Mail. Stateless: one POST, one answer.

A client that is no bridge gets a token with the answer to ``initialize``, as its ``Mcp-Session-Id``. Its session is registered by
the first call that acts, goes on after a restart of the daemon, and is over with the client's DELETE.

FastMCP is loaded when the first MCP client comes: a daemon without one stays small, and starts in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from sqlalchemy import Connection

from corral.coordination.caller_process import Peer, is_tcp
from corral.coordination.mail import addresses
from corral.coordination.services import Services
from corral.coordination.sessions import claims, clients, session_end, tokens
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.asgi import App, Receive, Scope, Send, replayed, respond, whole
from corral.core.errors import NotPermitted
from corral.core.instructions import PROFILES
from corral.core.routing import PEER, Caller
from corral.faces.mcp import arguments
from corral.faces.mcp.calls import FAMILIES, Call, current
from corral.faces.mcp.replays import Replays
from corral.store.rows.sessions import SessionRow

if TYPE_CHECKING:
    from starlette.applications import Starlette

PATHS = {"/mcp": "core", "/mcp/": "core", "/api": "mail", "/api/": "mail"}
"""Each with the profile that it serves where none is named."""


class Mcp:
    """ASGI middleware: MCP requests are served here, all others passed on.

    Args:
        app: Serves everything else.
        services: The services that tools use.
    """

    def __init__(self, app: App, services: Services) -> None:
        self._app = app
        self._services = services
        self._replays = Replays()
        self._served: dict[str, asyncio.Task[Starlette]] = {}
        self._living: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one request."""
        usual = PATHS.get(scope.get("path", "")) if scope["type"] == "http" else None
        return self._app(scope, receive, send) if usual is None else self._serve(scope, receive, send, usual)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, usual: str) -> None:
        call = await self._call(scope)
        body = await whole(receive)
        if call.is_over_http and _is_initialization(body):
            token = tokens.make_token()
            call, send = replace(call, connection="", token=""), _naming(send, token)
        elif call.token:
            row = await self._services.store.read(session_rows.get, call.connection)
            if not call.connection or tokens.was_closed(row):
                await respond(send, 404, _NO_SESSION)
                return
            if scope["method"] == "DELETE":
                await self._end(call)
                await respond(send, 200, b"{}")
                return
        if len(body) > arguments.MOST_BYTES:
            await respond(send, 200, await self._services.work(lambda: _too_large(body)))
            return
        profile = parse_qs(scope["query_string"].decode("latin-1")).get("profile", [usual])[0]
        served = await asyncio.shield(self._profile(profile if profile in PROFILES else usual))
        reset = current.set(call)
        try:
            await served({**scope, "path": "/mcp", "raw_path": b"/mcp"}, replayed(body, receive), send)
        finally:
            current.reset(reset)

    async def _end(self, call: Call) -> None:
        """End the session of a client that leaves, and those of the agents that it carried."""
        services, now = self._services, self._services.now()
        await services.store.write(session_end.end, call.connection, "closed", now, services.offer_again)
        services.nudge("supervisor")

    async def _call(self, scope: Scope) -> Call:
        """Who makes a request.

        The headers that say it are a bridge's: over the socket, from its own process, and as far as that one's processes prove
        them. A person's process may send them, too; another process of an agent calls for its own session.
        """
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        others = {name: value for name, value in headers.items() if not name.startswith("x-corral-")}
        peer: Peer | None = scope.get(PEER)
        if is_tcp(scope):
            return self._said(others)
        if peer is not None and headers.get("x-corral-bridge") == str(peer.pid):
            lineage = await self._services.work(lambda: peer.lineage)
            call = self._said(headers)
            settled = await self._settled(call.actor, lineage)
            return replace(call, settled=settled) if settled else self._said(others)
        caller = await claims.caller_of(self._services, scope)
        if caller.kind is Caller.PERSON:
            return self._said(headers)
        return replace(self._said(others), settled=next(iter(caller.sessions), ""))

    async def _settled(self, named: str | None, lineage: tuple[int, ...]) -> str:
        """The session that a bridge acts for: the one that it names, if its processes may speak for that, else their own.

        What a client's environment named at its start may be out of date; to name the session of another process is put on
        record.
        """

        def look(conn: Connection) -> tuple[str, SessionRow | None]:
            own = clients.sessions_of(conn, lineage)
            first = next(iter(own), "")
            if named is None or clients.may_speak(conn, named, own, lineage):
                return named or first, None
            row = session_rows.get(conn, named)
            return first, row if clients.is_elsewhere(conn, row, lineage) else None

        settled, other = await self._services.store.read_inline(look)
        if other is not None:
            names = {"session_id": other["session_id"], "agent_name": other["agent_name"]}
            refusal, now = NotPermitted("You cannot act for this session.", details=names), self._services.now()
            await self._services.store.write(addresses.refused, settled or None, refusal, now)
        return settled

    def _said(self, headers: dict[str, str]) -> Call:
        session, connection = (
            "" if tokens.is_proven_by_token(name) else name
            for name in (headers.get("x-corral-session", ""), headers.get("x-corral-connection", ""))
        )
        token = "" if session or connection else headers.get("mcp-session-id", "")
        client = headers.get("x-corral-client", "")
        return Call(
            services=self._services,
            replays=self._replays,
            bridge=headers.get("x-corral-bridge", ""),
            session=session,
            connection=connection or tokens.session_of(token) or "",
            token=token,
            client=int(client) if client.isdigit() else None,
            cwd=headers.get("x-corral-cwd", "").encode("latin-1").decode("utf-8", "surrogateescape"),
            use_id=headers.get("x-corral-use", ""),
        )

    def _profile(self, name: str) -> asyncio.Task[Starlette]:
        known = self._served.get(name)
        if known is None or (known.done() and known.exception() is not None):  # a start that failed is tried again
            known = self._served[name] = asyncio.create_task(self._start(name))
        return known

    async def _start(self, name: str) -> Starlette:
        app = await self._services.work(lambda: _built(name))
        started = asyncio.get_running_loop().create_future()
        self._living.append(asyncio.create_task(self._live(app, started)))
        await started
        return app

    async def _live(self, app: Starlette, started: asyncio.Future[None]) -> None:
        """Hold the application's lifespan open; it must end in the task that began it."""
        try:
            async with app.router.lifespan_context(app):
                started.set_result(None)
                await self._over.wait()
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)

    async def close(self) -> None:
        """End the started applications, when the daemon stops."""
        self._over.set()
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(asyncio.gather(*self._living, return_exceptions=True), 2)


_NO_SESSION = json.dumps({
    "jsonrpc": "2.0",
    "id": None,
    "error": {
        "code": -32001,
        "message": "Session not found. Its client or somebody else ended it, or this daemon never gave that Mcp-Session-Id. "
        "Send `initialize` again, without that header.",
    },
}).encode()  # fmt: skip


def _is_initialization(body: bytes) -> bool:
    if b'"initialize"' not in body:
        return False
    try:
        return bool(_object(json.loads(body)).get("method") == "initialize")
    except (ValueError, RecursionError):
        return False


def _naming(send: Send, token: str) -> Send:
    """Tell the client its token, with an answer that is a success."""

    async def name(message: Any) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            message = {**message, "headers": [*message.get("headers", ()), (b"mcp-session-id", token.encode())]}
        await send(message)

    return name


def _built(profile: str) -> Starlette:
    from corral.faces.mcp.server import build  # FastMCP: a second, and tens of megabytes

    return build(profile)


def _too_large(body: bytes) -> bytes:
    """The answer to a request that cannot be served: for a call in its tool's error format, else as a JSON-RPC error."""
    from corral.faces.mcp.profiles import TOOLS

    try:
        request = json.loads(body if len(body) <= arguments.MOST_LOOKED_AT else b"null")
    except (ValueError, RecursionError):
        request = None
    request = _object(request)
    params = _object(request.get("params"))
    call_arguments, tool = _object(params.get("arguments")), TOOLS.get(str(params.get("name")))
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request.get("id")}
    if tool is None or not call_arguments:
        limit = f"Too large: a request has at most {arguments.MOST_BYTES} bytes."
        return json.dumps({**answer, "error": {"code": -32600, "message": limit}}).encode()
    family = FAMILIES[tool]
    text = json.dumps(family.tell(arguments.too_large(len(body), call_arguments)))
    result = {"content": [{"type": "text", "text": text}], "isError": family.fails}
    return json.dumps({**answer, "result": result}).encode()


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
