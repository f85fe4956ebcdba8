"""The entry of the web view: checks each request before its body is read.

The pages have a port of their own, on which nothing else is served: a request there never reaches the API, and the API's token
is of no use to it. Everything but the link itself needs the cookie of a browser session.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl

from corral.config.ownership import is_own
from corral.coordination.services import Services
from corral.core.asgi import App, Receive, Scope, Send, whole
from corral.faces.web.rendering import Visit
from corral.faces.web.sessions import SESSION_S, BrowserSessions, form_token

MOST_FORM_BYTES = 256 * 1024
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Of every answer. ``same-origin``: without a referrer, browsers send no ``Origin`` with a form."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; form-action 'self'; base-uri 'none'"
)


class Answerer(Protocol):
    """Answers requests that were let in."""

    async def answer(self, visit: Visit, receive: Receive, send: Send) -> None:
        """Answer one."""


class Entry:
    """ASGI: serves the pages on their port, and passes on what comes by any other way.

    Args:
        app: Answers the rest.
        load: Makes the pages, when the first one is asked for.
    """

    def __init__(
        self, app: App, services: Services, sessions: BrowserSessions, load: Callable[[], Awaitable[Answerer]]
    ) -> None:
        self._app = app
        self._services = services
        self._sessions = sessions
        self._load = load
        self.port: int | None = None
        """The port of the pages, while there is one."""
        self.cookie = "corral_" + hashlib.sha256(str(services.project.root).encode()).hexdigest()[:12]
        """The name of the cookie: browsers share cookies among all ports of a host, so each project has its own."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one request."""
        if scope["type"] == "lifespan" or self.port is None or (scope.get("server") or ("", 0))[1] != self.port:
            return self._app(scope, receive, send)
        return self._serve(scope, receive, _with_headers(send))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await send_page(send, refusal)
            return
        if await self._services.work(lambda: is_stranger(scope["client"], scope["server"])):
            await send_page(send, STRANGER)
            return
        now = self._services.now()
        secret = _cookie(headers.get(b"cookie", ""), self.cookie)
        is_open = secret is not None and self._sessions.is_open(secret, now)
        query = _pairs(scope["query_string"])
        if scope["path"] == "/enter":
            begun = self._sessions.enter(query.get("key", ""), now) if scope["method"] == "GET" else None
            if begun is not None:
                await send_redirect(send, "/", self._set_cookie(begun))
            elif is_open:  # a browser with a session opened the link again
                await send_redirect(send, "/")
            else:
                await send_page(send, LINK_IS_VOID)
            return
        if secret is None or not is_open:
            await send_page(send, NO_SESSION)
            return
        visit = Visit(scope["method"], scope["path"], query, {}, headers, secret, form_token(secret))
        if visit.method == "POST":
            body = await whole(receive, MOST_FORM_BYTES)
            if len(body) > MOST_FORM_BYTES:
                await send_page(send, TOO_LARGE)
                return
            visit.form.update(_pairs(body))
            if not hmac.compare_digest(visit.form.get("token", "").encode(), visit.token.encode()):
                await send_page(send, NO_TOKEN)
                return
        pages = await self._load()
        await pages.answer(visit, receive, send)

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> Refusal | None:
        """Why a request is refused whatever its cookie: no browser would send it from these pages. None: accepted."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD", "POST"):
            return WRONG_METHOD
        own = f"127.0.0.1:{self.port}"
        if headers.get(b"host") != own:
            return WRONG_HOST
        if headers.get(b"origin", f"http://{own}") != f"http://{own}":
            return WRONG_ORIGIN
        if headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):
            return WRONG_ORIGIN
        if scope["method"] == "POST":
            media = headers.get(b"content-type", "").partition(";")[0].strip().lower()
            if media != "application/x-www-form-urlencoded" or b"origin" not in headers:
                return WRONG_ORIGIN
        return None

    def _set_cookie(self, secret: str) -> tuple[bytes, bytes]:
        cookie = f"{self.cookie}={secret}; Path=/; Max-Age={SESSION_S:.0f}; HttpOnly; SameSite=Strict"
        return b"set-cookie", cookie.encode()


def _with_headers(send: Send) -> Send:
    async def sending(message: object) -> None:
        assert isinstance(message, dict)
        if message["type"] == "http.response.start":
            headers = list(message["headers"])
            if not any(name == b"content-security-policy" for name, _ in headers):
                headers.append((b"content-security-policy", POLICY.encode()))
            message = {
                **message,
                "headers": [*(header for header in headers if header[0] != b"cache-control"), *HEADERS],
            }
        await send(message)

    return sending


def _cookie(text: str, name: str) -> str | None:
    """The value of a cookie; cookies of other programs on this host are ignored."""
    pairs = (part.strip().partition("=") for part in text.split(";"))
    return next((value for key, _, value in pairs if key == name), None)


def _pairs(text: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(text.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=64))
    except ValueError:  # too many fields
        return {}


# -- The user at the other end of a loopback connection, as the kernel's tables of connections tell it (Linux)

Address = tuple[str, int]
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""A client that speaks IPv6 reaches a port of IPv4 by a mapped address, and stands in the second table alone."""
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
"""Columns of a table."""
_CLOSED = "0"
"""The inode where no process holds that end any more; its user is printed as root then, whoever it was."""
_LOOKS = 3
"""A table is read in pieces, between which a row can move out of sight."""


def is_stranger(client: Address | None, own: Address, tables: Sequence[Path] = TABLES) -> bool:
    """Whether another user's process, and not root's, holds the other end. Who is not found is a stranger too.

    On other systems than Linux nobody is one: there the cookie alone protects.

    Args:
        client: The other end: its IPv4 address and its port; None: it hung up before it was asked for.
        own: This end.
    """
    if not sys.platform.startswith("linux"):
        return False
    if client is None:
        return True
    uid = next((uid for _ in range(_LOOKS) for uid in _holders(client, own, tables)), None)
    return uid is None or (uid != 0 and not is_own(uid))


def _holders(client: Address, own: Address, tables: Sequence[Path]) -> Iterator[int]:
    """The users whose processes hold the client's end; at most one, since the kernel gives a pair of addresses once."""
    local, remote = _written(client), _written(own)
    for table in tables:
        try:
            rows = table.read_text(encoding="ascii").splitlines()[1:]
        except (OSError, UnicodeDecodeError):  # a kernel without IPv6 has one table
            continue
        for columns in map(str.split, rows):
            if columns[_LOCAL] in local and columns[_REMOTE] in remote and columns[_INODE] != _CLOSED:
                yield int(columns[_UID])


def _written(address: Address) -> tuple[str, str]:
    """An address as the tables write it, by itself and mapped to IPv6: 32 bits as the machine's number, the port as it is."""
    host, port = address
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    (mark,) = struct.unpack("=I", b"\x00\x00\xff\xff")
    return f"{number:08X}:{port:04X}", f"{0:016X}{mark:08X}{number:08X}:{port:04X}"


# -- Answers to requests that are not let in: a plain page each, which says what to do; it shows nothing of the
# project

STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1.5rem}"
    "code{font:0.95em ui-monospace,monospace;padding:.15em .4em;border:1px solid #8886;border-radius:4px}"
)
POLICY_OUTSIDE = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'; form-action 'none'; base-uri 'none'"
)


@dataclass(frozen=True)
class Refusal:
    """The reason of a refusal, and what to do now; ``command`` is to be typed."""

    status: int
    title: str
    text: str
    command: str | None = None


LINK_IS_VOID = Refusal(
    403,
    "This link is used up",
    "A link opens the web view once, within a minute. For a new one, type in a terminal in the repository:",
    "corral web",
)
NO_SESSION = Refusal(
    403,
    "This browser is not let in",
    "Its session has ended, or there never was one: a session lasts 24 hours. To come in, type in a terminal in the repository:",
    "corral web",
)
WRONG_HOST = Refusal(403, "Wrong address", "The web view is served at the address that is printed by:", "corral web")
WRONG_ORIGIN = Refusal(
    403, "Refused", "The request came from another page. Go to the address that is printed by:", "corral web"
)
STRANGER = Refusal(
    403,
    "Refused",
    "The web view is for the user who runs Corral here, and the kernel does not name that user for this connection. Open the "
    "page in a browser of your own on this machine. Where a container or a proxy is in between, use the terminal:",
    "corral interactive",
)
WRONG_METHOD = Refusal(405, "Refused", "The web view knows GET and POST alone.")
NO_TOKEN = Refusal(403, "This form is out of date", "Go back, reload the page, and try again.")
TOO_LARGE = Refusal(413, "Too much text", "The form holds more than is taken. Go back, and send less.")


async def send_page(send: Send, refusal: Refusal) -> None:
    """Answer with the page of a refusal, and end the connection."""
    command = f"<p><code>{escape(refusal.command)}</code></p>" if refusal.command else ""
    body = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(refusal.title)} · Corral</title><style>{STYLE}</style>"
        f"<main><h1>{escape(refusal.title)}</h1><p>{escape(refusal.text)}</p>{command}</main></html>"
    ).encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"content-security-policy", POLICY_OUTSIDE.encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_redirect(send: Send, to: str, *more: tuple[bytes, bytes]) -> None:
    """Send the browser to another page of ours."""
    headers = [(b"location", to.encode("ascii")), (b"content-length", b"0"), *more]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
