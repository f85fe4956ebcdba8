"""Access to the daemon: for the owner over the Unix socket; over loopback TCP for a client with the token.

TCP requests must name a loopback host (against DNS rebinding), must not come from a web page (``Origin``), must carry the
bearer token, and send JSON. There are no CORS headers.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable
from pathlib import Path

from corral.config.ownership import write_private
from corral.core.asgi import App, Receive, Scope, Send, respond
from corral.core.errors import CorralError, NotPermitted


class Unauthorised(NotPermitted):
    """No token, or a wrong one."""

    status = 401
    name = "unauthorised"
    default_cause = "Requests over TCP need the token of this project's daemon."
    default_remedy = "Send `Authorization: Bearer <token>`; the token is in .corral/run/token."


class Access:
    """ASGI middleware that refuses unauthorised requests."""

    def __init__(self, app: App, *, token: str, socket: Path) -> None:
        self._app = app
        self._token = token.encode()
        self._socket = str(socket)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Check one connection's first message and pass it on, or answer with the refusal."""
        is_known = scope["type"] == "lifespan" or _over_socket(scope, self._socket)
        refusal = None if is_known else self._refusal(scope)
        return self._app(scope, receive, send) if refusal is None else refuse(send, refusal)

    def _refusal(self, scope: Scope) -> CorralError | None:
        if scope["type"] != "http":
            return NotPermitted("Only HTTP is spoken here.")
        headers = {key.lower(): value for key, value in scope["headers"]}
        port = (scope.get("server") or ("", 0))[1]
        host = headers.get(b"host", b"").decode("latin-1")
        if host not in {f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"}:
            return NotPermitted("The Host header is not this daemon's loopback address.")
        if b"origin" in headers:
            return NotPermitted("Requests from web pages are refused.")
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            return Unauthorised("The token is missing or wrong.")
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
        if has_body:
            media = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if media != b"application/json":
                return NotPermitted("A body must be application/json.")
        return None


async def refuse(send: Send, refusal: CorralError) -> None:
    """Answer a request without reading its body, and close its connection."""
    await respond(send, refusal.status, json.dumps(refusal.to_wire()).encode(), (b"connection", b"close"))


def _over_socket(scope: Scope, socket: str) -> bool:
    server = scope.get("server") or ("", 0)
    return bool(server[0] == socket and server[1] is None)


def make_token(file: Path) -> str:
    """The project's token: made once (256 bits), kept in a file only its owner can read."""
    try:
        token = file.read_text(encoding="ascii").strip()
        if len(token) >= 43:
            file.chmod(0o600)
            return token
    except (FileNotFoundError, UnicodeDecodeError):
        pass  # none yet, or not one of ours: a new one is made below
    token = secrets.token_urlsafe(32)
    write_private(file, token + "\n")
    return token
