"""The one router: finds the operation of a request, reads its arguments, and turns what it answers or raises into an answer.

A declared route says in its signature what it takes (:mod:`corral.core.routing`). That is read when a route is first asked for:
most daemons are asked for few of them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, cleandoc, signature
from typing import Any, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from corral.coordination.caller_process import is_tcp, require
from corral.coordination.services import Services
from corral.coordination.sessions import claims
from corral.coordination.sessions.api import Acting
from corral.core.asgi import Receive, Scope, Send, json_bytes, respond, whole
from corral.core.errors import (
    NOT_IN_THIS_VERSION,
    CorralError,
    DatabaseDamaged,
    DatabaseUnavailable,
    GitFailed,
    InvalidInput,
    LimitReached,
    NotFound,
    NotPermitted,
    OwnDaemon,
    Unidentified,
)
from corral.core.failures import failure
from corral.core.logs import logger
from corral.core.routing import EVERYONE, HERE, MACHINE, NO_WORK, PERSON, Called, Header, Route, Routes
from corral.observe.audit import requests as audit_requests

_log = logger("http")
_SEE = "See /openapi.json for what there is."
COMMON = frozenset({InvalidInput, NotPermitted, CorralError, GitFailed, DatabaseUnavailable, DatabaseDamaged})
"""The errors of every operation: its request is malformed, its caller may not ask, or what it stands upon fails."""


@dataclass(frozen=True)
class Argument:
    """A parameter of a handler, and where its value stands in a request.

    Attributes:
        name: That of the handler's parameter.
        place: ``path``, ``query``, ``header`` or ``body``.
        alias: What it is called there.
        kind: Its type, with its limits.
        default: Its value where the request does not say it; ``Parameter.empty``: it must.
        fields: Where a model takes several parts of the query: their names there.
    """

    name: str
    place: str
    alias: str
    kind: Any
    default: Any
    fields: tuple[str, ...] = ()

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Validates it."""
        return TypeAdapter(self.kind)

    @property
    def shown(self) -> str:
        """Where it stands, for a message."""
        return self.place if self.place == "body" or self.fields else f"{self.place}.{self.alias}"

    @cached_property
    def is_list(self) -> bool:
        """Whether the query may say it several times."""
        origin = get_origin(_without_marks(self.kind))
        return isinstance(origin, type) and issubclass(origin, Sequence)


def sentence(doc: str | None) -> str:
    """The first sentence of a docstring, or what stands before its first semicolon or colon; without the mark behind it."""
    return re.split(r"[.;:](?:\s|$)", cleandoc(doc or ""))[0]


class Missing(Exception):
    """A request does not have a part that its operation needs."""


class Operation:
    """A declared route, ready to be called.

    Attributes:
        path: Its whole path, as ``/api/v1/tasks/{task_id}``.
        pattern: Matches such a path; each group is an argument.
    """

    def __init__(self, routes: Routes, route: Route) -> None:
        self.tag, self.route = routes.tag, route
        self.pattern, self.path, self._converters = compile_path(f"{routes.path}{route.path}")

    @cached_property
    def arguments(self) -> list[Argument]:
        """What the handler takes beside the services and the request itself."""
        _services, *parameters = signature(self.route.handler, eval_str=True).parameters.values()
        return [_argument(parameter, self) for parameter in parameters if parameter.annotation is not Request]

    @cached_property
    def request_name(self) -> str | None:
        """The name of the parameter that takes the request itself."""
        parameters = signature(self.route.handler, eval_str=True).parameters.values()
        return next((parameter.name for parameter in parameters if parameter.annotation is Request), None)

    @cached_property
    def acting(self) -> list[type[Acting]]:
        """The types of its arguments that say who acts."""
        return [_without_marks(argument.kind) for argument in self.arguments if _is_a(argument.kind, Acting)]

    @cached_property
    def errors(self) -> frozenset[type[CorralError]]:
        """What it answers beside the errors of every operation: what it declares, and what follows from what it takes."""
        follow = set[type[CorralError]]()
        if self.acting or (self.names and self.route.finds):
            follow.add(NotFound)
        if any(not model.ONLY_ASKS for model in self.acting):
            follow.add(Unidentified)
        if self.acting and self.route.changes and self.route.callers != PERSON:
            follow.add(LimitReached)  # a session that is not known is registered
        if self.route.callers == NO_WORK:
            follow.add(OwnDaemon)
        return self.route.errors | follow

    def declares(self, error: CorralError) -> bool:
        """Whether an error is one that it, or every operation, says that it answers."""
        return any((kind.status, kind.name) == (error.status, error.name) for kind in self.errors | COMMON)

    @property
    def about(self) -> str:
        """What it does."""
        return cleandoc(self.route.handler.__doc__ or "")

    @property
    def summary(self) -> str:
        """The first sentence of that."""
        return sentence(self.about).replace("``", "`")

    @property
    def names(self) -> set[str]:
        """The arguments that stand in its path."""
        return {*self._converters}

    async def read(self, scope: Scope, receive: Receive, in_path: Mapping[str, str]) -> dict[str, Any]:
        """Read the arguments of a request.

        Raises:
            InvalidInput: They are not what the operation takes.
        """
        values: dict[str, Any] = {}
        problems: list[dict[str, str]] = []
        query_string = scope["query_string"]
        query = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True) if query_string else []
        for argument in self.arguments:
            try:
                if argument.place == "body":
                    values[argument.name] = _in_body(argument, await whole(receive))
                else:
                    values[argument.name] = _elsewhere(argument, in_path, query, scope)
            except ValidationError as error:
                for detail in error.errors(include_url=False, include_context=False, include_input=False):
                    problems.append(
                        {"field": ".".join(map(str, (argument.shown, *detail["loc"]))), "message": detail["msg"]}
                    )
            except Missing:
                problems.append({"field": argument.shown, "message": "Field required"})
        if problems:
            first = problems[0]
            raise InvalidInput(f"{first['field']}: {first['message']}.", details={"errors": problems})
        if self.request_name is not None:
            values[self.request_name] = Request(scope, receive)
        return values


def _argument(parameter: Parameter, operation: Operation) -> Argument:
    """A parameter as it stands in a request; see :mod:`corral.core.routing`."""
    kind, name = parameter.annotation, parameter.name
    marks = getattr(kind, "__metadata__", ())
    alias = next((mark.name for mark in marks if isinstance(mark, Called)), name)
    place, fields = "query", tuple[str, ...]()
    if name in operation.names:
        place = "path"
    elif Header in marks:
        place, alias = "header", name.replace("_", "-")
    elif _is_a(kind, BaseModel):
        if operation.route.method == "GET":
            fields = tuple(field.alias or called for called, field in _without_marks(kind).model_fields.items())
        else:
            place = "body"
    elif get_origin(_without_marks(kind)) is dict:
        place = "body"
    return Argument(name, place, alias, kind, parameter.default, fields)


def _is_a(kind: Any, base: type) -> bool:
    """Whether a type, its marks aside, is a class below this one."""
    bare = _without_marks(kind)
    return isinstance(bare, type) and issubclass(bare, base)


def _without_marks(kind: Any) -> Any:
    """The type ``X`` of ``Annotated[X, …]`` and of ``X | None``."""
    while hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    others = [part for part in getattr(kind, "__args__", ()) if part is not type(None)]
    is_optional = type(None) in getattr(kind, "__args__", ()) and len(others) == 1
    return _without_marks(others[0]) if is_optional else kind


def _in_body(argument: Argument, body: bytes) -> Any:
    if not body:
        return _default(argument)
    try:
        return argument.adapter.validate_json(body)
    except ValidationError as error:
        if error.errors()[0]["type"] != "json_invalid":
            raise
        try:  # pydantic's reader does not take half of a surrogate pair, as the name of a file may have it
            value = json.loads(body)
        except (ValueError, RecursionError):
            raise error from None
        return argument.adapter.validate_python(value)


def _elsewhere(argument: Argument, in_path: Mapping[str, str], query: list[tuple[str, str]], scope: Scope) -> Any:
    validate = argument.adapter.validate_python
    if argument.place == "path":
        return validate(in_path[argument.name])
    if argument.fields:
        return validate({name: value for name, value in query if name in argument.fields})
    if argument.place == "header":
        name = argument.alias.encode()
        values = [value.decode("latin-1") for header, value in scope["headers"] if header == name]
    else:
        values = [value for name, value in query if name == argument.alias]
    if not values:
        return _default(argument)
    return validate(values if argument.is_list else values[-1])


def _default(argument: Argument) -> Any:
    """Its value where a request does not say it.

    Raises:
        Missing: It must.
    """
    if argument.default is Parameter.empty:
        raise Missing
    return argument.default


class Router:
    """ASGI: answers every request that is for an operation.

    Args:
        services: What operations use.
        often: The operations that sessions ask for all the time, the most frequent first.
        every: Imports all of them, once another one is asked for.
    """

    def __init__(self, services: Services, often: Iterable[Routes], every: Callable[[], Iterable[Routes]]) -> None:
        self._services = services
        self._know(operations(often))
        self._every: Callable[[], Iterable[Routes]] | None = every
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            operation, in_path = await self._find(scope["method"], scope["path"])
            if operation.route.action is not None:
                with suppress(
                    DatabaseDamaged
                ):  # nothing is put on record then, and a daemon can be stopped all the same
                    audit_requests.caller.set((await claims.claimant(self._services, scope)).session_id or "")
            await self._require(operation, in_path, scope)
            arguments = await operation.read(scope, receive, in_path)
        except CorralError as error:
            await respond(send, error.status, json_bytes(error.to_wire()))
            return
        route, status = operation.route, operation.route.status
        try:
            for argument in arguments.values():
                if isinstance(argument, Acting):
                    await claims.settle(self._services, argument, scope)
            answered = result = await route.handler(self._services, **arguments)
        except CorralError as error:
            status, answered, result = error.status, error.to_wire(), error
            if not operation.declares(error):  # answered all the same; no test lets it pass
                _log.error("undeclared_error", operation=f"{route.method} {operation.path}", name=error.name)
        except Exception as error:  # noqa: BLE001 - the edge: logged, and told
            failed = failure(scope["method"], scope["path"], error)
            status, answered, result = failed.status, failed.to_wire(), failed
        self._note(route, arguments, result)
        if isinstance(answered, Response):
            await answered(scope, receive, send)
        else:
            await respond(send, status, json_bytes(answered))

    async def _require(self, operation: Operation, in_path: Mapping[str, str], scope: Scope) -> None:
        """Refuse callers who may not ask for this, and put it on record.

        Raises:
            NotPermitted: The caller may not.
        """
        route = operation.route
        if route.callers == HERE and is_tcp(scope):
            raise NotPermitted(
                "Hook events are not taken over TCP.",
                cause="Nothing shows there which client sends one, and an event acts as the session that it names.",
                remedy="Send it over the Unix socket of the daemon, as the bridge, the hooks and the mod do.",
            )
        if route.callers >= HERE:  # over the socket, whoever it is
            return
        try:
            await self._services.work(lambda: require(route.callers, operation.summary, self._services, scope))
        except NotPermitted as error:
            self._note(route, {**in_path, "caller": error.details["caller"]}, error)
            raise

    def _note(self, route: Route, arguments: Mapping[str, Any], result: Any) -> None:
        if route.action is not None:
            audit_requests.note(self._services, route.action, arguments, result)

    def _know(self, every: list[Operation]) -> None:
        self._operations = every
        self._at = {
            (operation.route.method, operation.path): operation for operation in every[::-1] if not operation.names
        }
        self._of_noun: dict[tuple[str, str], list[Operation]] = {}
        for operation in every:
            self._of_noun.setdefault((operation.route.method, _noun(operation.path)), []).append(operation)

    async def _find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        """The operation of a request, and what its path says.

        Raises:
            NotFound: There is none at this address.
            MethodNotAllowed: There are others.
        """
        if (operation := self._at.get((method, path))) is not None:
            return operation, {}
        match = self._match(method, path)
        if match is None and self._every is not None:
            async with self._loading:
                if (every := self._every) is not None:
                    self._know(await self._services.work(lambda: described(every())))
                    self._every = None
            match = self._match(method, path)
        if match is not None:
            return match
        if any(operation.pattern.match(path) for operation in self._operations):
            raise MethodNotAllowed(f"{method} is not answered at this address.", remedy=_SEE)
        raise NotFound("There is no such address.", cause=NOT_IN_THIS_VERSION, remedy=_SEE)

    def _match(self, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
        for operation in self._of_noun.get((method, _noun(path)), ()):
            if (match := operation.pattern.match(path)) is not None:
                return operation, match.groupdict()
        return None


def _noun(path: str) -> str:
    """How a path begins, ``/api/v1/tasks``, before the first of its arguments."""
    return "/".join(path.split("/", 4)[:4])


class MethodNotAllowed(InvalidInput):
    """An address at which other methods are answered."""

    status = 405
    default_cause = "The address takes other methods."


def operations(nouns: Iterable[Routes]) -> list[Operation]:
    """The operations of nouns, in the order in which a path is looked for: those without arguments in it before others."""
    every = [Operation(routes, route) for routes in nouns for route in routes.declared]
    return sorted(every, key=lambda operation: bool(operation.names))


def described(nouns: Iterable[Routes]) -> list[Operation]:
    """The operations of nouns, and the one that describes them."""
    known, about = operations(nouns), Routes("openapi", scope=MACHINE, callers=EVERYONE, prefix="")

    @about.get("/openapi.json")
    async def document(_services: Services) -> dict[str, Any]:
        """This document."""
        from corral.faces.http.openapi import document

        return document(known)

    return [*known, *operations([about])]
