"""The calls that sessions make all the time, answered without the framework around them.

FastAPI spends more on finding a route, its dependencies and its stack of middleware than such a call itself costs. The routes
that are declared ``hot`` are called here, with the same models; whatever is unusual (another path, a body that is not what it
should be) goes to the framework as it came, which also documents all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from inspect import signature
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.services import Services
from corral.core.asgi import App, Receive, Scope, Send, replayed, respond, whole
from corral.core.errors import CorralError
from corral.core.failures import failure
from corral.core.identifiers import LONGEST_SESSION_ID
from corral.core.json_text import json_bytes
from corral.core.routing import PREFIX, Route, Routes
from corral.observe.audit import requests as audit_requests

Read = Callable[[Any], Any]
"""Makes an argument of what was said; raises ValueError where it is none."""


@dataclass(frozen=True)
class Call:
    """A hot route, ready to be called.

    Attributes:
        pattern: Matches its path; each group is an argument.
        said: Name of the argument that the body is (of GET: the query), and how it is read; None: there is none.
        request: Name of the argument that takes the request itself; None: none does.
        action: Its name in the audit; None: it is not noted there.
    """

    method: str
    pattern: re.Pattern[str]
    answer: Callable[..., Awaitable[Any]]
    status: int
    said: tuple[str, Read] | None
    request: str | None
    action: str | None


def _object(body: bytes) -> dict[str, Any]:
    decoded = json.loads(body)
    if not isinstance(decoded, dict):
        raise ValueError("not an object")
    return decoded


def _query(model: type[BaseModel]) -> Read:
    def asked(query: bytes) -> BaseModel:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query))
        if len(dict(pairs)) < len(pairs):
            raise ValueError("said twice")
        return model.model_validate(dict(pairs))

    return asked


def _reader(kind: Any, method: str) -> Read:
    if not isinstance(kind, type) or not issubclass(kind, BaseModel):
        return _object
    return _query(kind) if method == "GET" else kind.model_validate_json


def _call(prefix: str, route: Route) -> Call:
    """A declared route as it is called here; its parameters say what it wants, as they tell FastAPI."""
    said, request = None, None
    _services, *parameters = signature(route.handler, eval_str=True).parameters.values()
    for one in parameters:
        if one.annotation is Request:
            request = one.name
        elif f"{{{one.name}}}" not in route.path:
            said = (one.name, _reader(one.annotation, route.method))
    pattern = re.compile(PREFIX + re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", prefix + route.path))
    status = route.options.get("status_code", 200)
    return Call(route.method, pattern, route.handler, status, said, request, route.action)


class FastPath:
    """ASGI: answers the hot routes, passes the rest on.

    Args:
        app: The framework's application.
        nouns: The operations of the nouns, the most frequent first.
    """

    def __init__(self, app: App, services: Services, nouns: Iterable[Routes]) -> None:
        self._app = app
        self._services = services
        self.calls = [_call(routes.prefix, route) for routes in nouns for route in routes.declared if route.hot]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        audit_requests.caller.set(_caller(scope))
        found = self._find(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        call, arguments = found
        body = b"" if call.method == "GET" else await whole(receive)
        try:
            if call.said is not None:
                name, read = call.said
                arguments[name] = read(scope["query_string"] if call.method == "GET" else body)
        except (ValueError, RecursionError):  # also pydantic's; the framework says what is wrong with it
            await self._app(scope, replayed(body, receive), send)
            return
        if call.request is not None:
            arguments[call.request] = Request(scope, receive)
        status = call.status
        try:
            answered = result = await call.answer(self._services, **arguments)
        except CorralError as error:
            status, answered, result = error.status, error.to_wire(), error
        except Exception as error:  # noqa: BLE001 - the edge: logged, and told
            failed = failure(scope["method"], scope["path"], error)
            status, answered, result = failed.status, failed.to_wire(), failed
        if call.action is not None:
            audit_requests.note(self._services, call.action, arguments, result)
        if isinstance(answered, Response):
            await answered(scope, receive, send)
            return
        await respond(send, status, json_bytes(answered))

    def _find(self, method: str, path: str) -> tuple[Call, dict[str, Any]] | None:
        for call in self.calls:
            if call.method == method and (match := call.pattern.fullmatch(path)) is not None:
                return call, match.groupdict()
        return None


def _caller(scope: Scope) -> str:
    """The session that the request says it comes from; empty: it does not say."""
    for name, value in scope.get("headers", ()):
        if name == b"x-corral-session":
            return str(value.decode("latin-1"))[:LONGEST_SESSION_ID]
    return ""
