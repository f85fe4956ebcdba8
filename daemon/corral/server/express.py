"""The calls that sessions make all the time, answered without the framework around them.

FastAPI spends more on finding a route, its dependencies and its stack of middleware than such a call itself costs. The same
route functions are called here, with the same models; whatever is unusual (another path, a body that is not what it should
be) goes to the framework as it came, which also documents all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from corral.errors import CorralError
from corral.server.access import App, Receive, Scope, Send
from corral.server.app import PREFIX, failure
from corral.server.routes import hooks, locks, messages, sessions, tasks
from corral.server.services import Services

Call = tuple["re.Pattern[str]", Callable[..., Awaitable[Any]], "Callable[[bytes], Any] | None", int]


def _object(body: bytes) -> dict[str, Any]:
    decoded = json.loads(body)
    if not isinstance(decoded, dict):
        raise ValueError("not an object")
    return decoded


def _model(model: type[BaseModel]) -> Callable[[bytes], BaseModel]:
    return model.model_validate_json


_CALLS: tuple[Call, ...] = tuple(
    (re.compile(PREFIX + path), answer, read, status)
    for path, answer, read, status in (
        ("/hooks/([^/]+)", hooks.hook, _object, 200),
        ("/sessions/([^/]+)/heartbeat", sessions.heartbeat, None, 200),
        ("/locks/acquire", locks.acquire, _model(locks.Acquisition), 201),
        ("/locks/check", locks.check, _model(locks.Keys), 200),
        ("/locks/release", locks.release, _model(locks.Release), 200),
        ("/messages", messages.send, _model(messages.Sending), 201),
        ("/sessions", sessions.register, _model(sessions.Registration), 201),
        ("/tasks", tasks.submit, _object, 201),
    )
)
"""Path, route function, how its body is read (None: it has none), and the status of success. All are POST."""


class Express:
    """ASGI: answers the calls in the table, passes the rest on.

    Args:
        app: The framework's application.
    """

    def __init__(self, app: App, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        found = _find(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        arguments, answer, read, status = found
        body = await _whole(receive)
        try:
            given = [*arguments, read(body)] if read is not None else arguments
        except ValueError:  # also pydantic's; the framework says what is wrong with it
            await self._app(scope, _again(body, receive), send)
            return
        try:
            said = await answer(self._services, *given)
        except CorralError as error:
            status, said = error.status, error.to_wire()
        except Exception as error:  # noqa: BLE001 - the edge: logged, and told
            failed = failure(scope["method"], scope["path"], error)
            status, said = failed.status, failed.to_wire()
        data = json.dumps(said).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})


def _find(path: str) -> tuple[list[str], Callable[..., Awaitable[Any]], Callable[[bytes], Any] | None, int] | None:
    for pattern, answer, read, status in _CALLS:
        match = pattern.fullmatch(path)
        if match is not None:
            return list(match.groups()), answer, read, status
    return None


async def _whole(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """The body as if it had not been read yet, then whatever follows."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return messages.pop() if messages else await receive()

    return again
