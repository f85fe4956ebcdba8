"""ASGI without a framework: its types, a request's whole body, an answer in JSON."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def whole(receive: Receive, most: int = sys.maxsize) -> bytes:
    """The body of a request; once it is longer than ``most`` bytes, no more of it is read."""
    body, more = bytearray(), True
    while more and len(body) <= most:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body as if it had not been read yet, then whatever follows."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return messages.pop() if messages else await receive()

    return replay


async def respond(send: Send, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
    """Answer with a body that is JSON; ``more``: further headers."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
