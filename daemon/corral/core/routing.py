"""Declarations of operations: what is asked for at which address, and what is answered.

An operation is an async function that takes the services first. Its other parameters stand where their names and types say: in
the path, if its path names them; a model or an object in the body (of GET: in the query); the rest in the query. Limits and
descriptions are pydantic's ``Field``. :mod:`corral.faces.http` serves them and describes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, get_type_hints

from corral.core.errors import CorralError

PREFIX = "/api/v1"
"""Before nearly every path."""

PEER = "corral.peer"
"""In a request's scope: the process at the other end of its connection."""


class Caller(Enum):
    """Who asks, as far as the process at the other end shows it: a process of the same user can hide what it is."""

    PERSON = "person"
    SESSION = "an agent session"
    WORK = "a task or verification of this daemon"
    PROGRAM = "a program over TCP"


class Scope(Enum):
    """What operations belong to, where several machines work on one project."""

    PROJECT = "project"
    MACHINE = "machine"


EVERYONE = frozenset(Caller)
PERSON = frozenset({Caller.PERSON})
NO_WORK = EVERYONE - {Caller.WORK}
HERE = EVERYONE - {Caller.PROGRAM}
"""Over the socket alone."""
PROJECT, MACHINE = Scope.PROJECT, Scope.MACHINE

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


class Header:
    """Marks a parameter that stands in a header of its name: ``Annotated[int, Header]``."""


@dataclass(frozen=True)
class Called:
    """Says what a parameter is called in the query, where that is no name in Python."""

    name: str


@dataclass(frozen=True)
class Route:
    """One operation.

    Attributes:
        path: Below its noun's.
        callers: Who may ask for it.
        changes: Whether it changes anything.
        scope: Whether it is of the project, or of this machine.
        status: Of an answer that is a success.
        response_of: The type of its answer, where the handler returns a response that is made already.
        media: Of its answer, if that is not JSON.
        errors: What it answers beside the errors of every operation, and those that follow from what it takes.
        finds: Whether what its path names must be there; else it takes any name.
        action: Its name in the audit; None: it is not noted there.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    callers: frozenset[Caller]
    changes: bool
    scope: Scope
    status: int = 200
    response_of: Any = None
    media: str = "application/json"
    errors: frozenset[type[CorralError]] = frozenset()
    finds: bool = True
    action: str | None = None

    @property
    def answer(self) -> Any:
        """The type of its answer."""
        return self.response_of or get_type_hints(self.handler, include_extras=True)["return"]


class Routes:
    """The operations of a module, in the order in which they are looked for.

    Args:
        tag: Their group in the OpenAPI document.
        path: Of their noun, before their own.
        scope: Whether those that say nothing else are of the project, or of this machine.
        callers: Who may ask for those that say nothing else; nobody, where nothing is said.
        errors: That each of them can answer.
        prefix: Before the path.
    """

    def __init__(
        self,
        tag: str,
        path: str = "",
        *,
        scope: Scope,
        callers: frozenset[Caller] = frozenset(),
        errors: Iterable[type[CorralError]] = (),
        prefix: str = PREFIX,
    ) -> None:
        self.tag, self.scope, self.callers, self.errors = tag, scope, callers, frozenset(errors)
        self.path = prefix + path
        self.declared: list[Route] = []

    def get(self, path: str, **more: Any) -> Callable[[F], F]:
        """Declare what asks for something.

        Args:
            more: ``answer``: the type of the answer, where the handler's signature does not say it; ``errors``: those beside
                the errors of all; ``audited``: whether it is noted as ``<noun>.<function>``, by default where it changes
                something; and fields of :class:`Route`.
        """
        return self._declare("GET", path, {"changes": False, **more})

    def post(self, path: str, **more: Any) -> Callable[[F], F]:
        """Declare what does something, or with ``changes=False`` what asks with a body; ``more``: as for :meth:`get`."""
        return self._declare("POST", path, {"changes": True, **more})

    def delete(self, path: str, **more: Any) -> Callable[[F], F]:
        """Declare what removes something; ``more``: as for :meth:`get`."""
        return self._declare("DELETE", path, {"changes": True, **more})

    def _declare(self, method: str, path: str, more: dict[str, Any]) -> Callable[[F], F]:
        audited, answer = more.pop("audited", more["changes"]), more.pop("answer", None)
        errors = self.errors.union(more.pop("errors", ()))

        def keep(handler: F) -> F:
            action = f"{self.tag.removesuffix('s')}.{handler.__name__}" if audited else None
            shared = {"callers": self.callers, "scope": self.scope, "errors": errors}
            fields = {**shared, "action": action, "response_of": answer, **more}
            self.declared.append(Route(method, path, handler, **fields))
            return handler

        return keep
