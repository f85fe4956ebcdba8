"""ASGI without a framework: its types, a request's whole body, an answer in JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from pydantic_core import to_json, to_jsonable_python

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
"""What passes a request on to another one returns what that returns: a coroutine around it takes time at every turn."""


def header(scope: Scope, name: bytes) -> str:
    """A header of a request, by its name in lower case, the last of several; empty: it has none."""
    for its_name, value in reversed(scope["headers"]):
        if its_name == name:
            return str(value, "latin-1")
    return ""


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


# -- Answers as JSON. Half of a surrogate pair, from a file name that is not UTF-8 or from a client, does not make
# them fail

_HALF = re.compile("[\ud800-\udfff]")


def json_bytes(value: Any) -> bytes:
    """A value as JSON, in UTF-8; half a pair as its escape."""
    try:
        return to_json(value)
    except ValueError:  # that, or too deep for it
        return json.dumps(value, default=to_jsonable_python).encode()


def utf8(value: Any) -> Any:
    """A value that can be written as UTF-8: itself, or a copy that shows half a pair as its escape."""
    try:
        to_json(value)
    except ValueError:  # that, or too deep for it
        text = json.dumps(value, ensure_ascii=False, default=to_jsonable_python)
        return json.loads(_HALF.sub(lambda half: f"\\\\u{ord(half[0]):04x}", text))
    return value
