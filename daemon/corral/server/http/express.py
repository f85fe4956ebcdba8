"""The calls that sessions make all the time, answered without the framework around them.

FastAPI spends more on finding a route, its dependencies and its stack of middleware than such a call itself costs. The same
route functions are called here, with the same models; whatever is unusual (another path, a body that is not what it should
be) goes to the framework as it came, which also documents all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from inspect import signature
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from corral.app.json_text import json_bytes
from corral.app.runtime.services import Services
from corral.errors import CorralError
from corral.server.failures import failure
from corral.server.http.access import App, Receive, Scope, Send
from corral.server.http.routes import daemon, hooks, locks
from corral.server.http.routes.sessions import messages, sessions
from corral.server.http.routes.work import tasks
from corral.server.http.routing import PREFIX

Read = Callable[[bytes], Any]
Found = tuple[list[Any], Callable[..., Awaitable[Any]], "Read | None", int, bool]
Call = tuple[str, "re.Pattern[str]", Callable[..., Awaitable[Any]], "Read | None", int, bool]


def _object(body: bytes) -> dict[str, Any]:
    decoded = json.loads(body)
    if not isinstance(decoded, dict):
        raise ValueError("not an object")
    return decoded


def _model(model: type[BaseModel]) -> Callable[[bytes], BaseModel]:
    return model.model_validate_json


def _query(model: type[BaseModel]) -> Callable[[bytes], BaseModel]:
    def asked(query: bytes) -> BaseModel:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query))
        if len(dict(pairs)) < len(pairs):
            raise ValueError("said twice")
        return model.model_validate(dict(pairs))

    return asked


_CALLS: tuple[Call, ...] = tuple(
    (method, re.compile(PREFIX + path), answer, read, status, "request" in signature(answer).parameters)
    for method, path, answer, read, status in (
        ("POST", "/hooks/([^/]+)", hooks.hook, _object, 200),
        ("POST", "/sessions/([^/]+)/heartbeat", sessions.heartbeat, None, 200),
        ("POST", "/locks/acquire", locks.acquire, _model(locks.Acquisition), 201),
        ("POST", "/locks/check", locks.check, _model(locks.Keys), 200),
        ("POST", "/locks/release", locks.release, _model(locks.Release), 200),
        ("POST", "/messages", messages.send, _model(messages.Sending), 201),
        ("GET", "/messages", messages.inbox, _query(messages.Inbox), 200),
        ("POST", "/sessions", sessions.register, _model(sessions.Registration), 201),
        ("POST", "/tasks", tasks.submit, _object, 201),
        ("POST", "/tasks/claim", tasks.claim, _model(tasks.Claim), 200),
        ("POST", "/tasks/([^/]+)/complete", tasks.complete, _model(tasks.Completion), 200),
        ("POST", "/hooks/Stop/wait", hooks.wait, _object, 200),
        ("GET", "/bridge", hooks.bridge, _query(hooks.Bridge), 200),
        ("GET", "/health", daemon.health, None, 200),
        ("POST", "/daemon/stop", daemon.stop, _model(daemon.Stop), 202),
    )
)
"""Method, path, route function, how its body (of GET: its query) is read (None: it has none), the status of success, and
whether it wants the request itself."""
_BY_METHOD = {method: [call for call in _CALLS if call[0] == method] for method in ("GET", "POST")}


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
        found = _find(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        arguments, answer, read, status, asks = found
        body = b"" if scope["method"] == "GET" else await _whole(receive)
        said = scope["query_string"] if scope["method"] == "GET" else body
        if asks:
            arguments.append(Request(scope, receive))
        try:
            given = [*arguments, read(said)] if read is not None else arguments
        except (ValueError, RecursionError):  # also pydantic's; the framework says what is wrong with it
            await self._app(scope, _again(body, receive), send)
            return
        try:
            answered = await answer(self._services, *given)
        except CorralError as error:
            status, answered = error.status, error.to_wire()
        except Exception as error:  # noqa: BLE001 - the edge: logged, and told
            failed = failure(scope["method"], scope["path"], error)
            status, answered = failed.status, failed.to_wire()
        if isinstance(answered, Response):
            await answered(scope, receive, send)
            return
        data = json_bytes(answered)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})


def _find(method: str, path: str) -> Found | None:
    for _method, pattern, answer, read, status, asks in _BY_METHOD.get(method, ()):
        match = pattern.fullmatch(path)
        if match is not None:
            return list(match.groups()), answer, read, status, asks
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
