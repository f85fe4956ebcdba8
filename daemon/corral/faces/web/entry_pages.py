"""Answers to requests that are not let in: a plain page each, which says what to do; it shows nothing of the project."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from html import escape

from corral.core.asgi import Send

STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1.5rem}"
    "code{font:0.95em ui-monospace,monospace;padding:.15em .4em;border:1px solid #8886;border-radius:4px}"
)
POLICY = (
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
        (b"content-security-policy", POLICY.encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_redirect(send: Send, to: str, *more: tuple[bytes, bytes]) -> None:
    """Send the browser to another page of ours."""
    headers = [(b"location", to.encode("ascii")), (b"content-length", b"0"), *more]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
