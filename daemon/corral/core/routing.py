"""Declarations of operations: what is asked for at which address, and what is answered.

An operation is an async function that takes the services first. Its other parameters stand where their names and types say: in
the path, if its path names them; a model or an object in the body (of GET: in the query); the rest in the query. Limits and
descriptions are pydantic's ``Field``. :mod:`corral.faces.http` serves them and describes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

PREFIX = "/api/v1"
"""Before nearly every path."""

TRANSPORT = "corral.transport"
"""In a request's scope: its connection, to find the process at the other end."""

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
        status: Of an answer that is a success.
        said: The type of its answer, where the handler returns a response that is made already.
        media: Of its answer, if that is not JSON.
        action: Its name in the audit; None: it is not noted there.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    status: int = 200
    said: Any = None
    media: str = "application/json"
    action: str | None = None

    @property
    def answer(self) -> Any:
        """The type of its answer."""
        return self.said or get_type_hints(self.handler, include_extras=True)["return"]


class Routes:
    """The operations of a module, in the order in which they are looked for.

    Args:
        tag: Their group in the OpenAPI document.
        path: Of their noun, before their own.
        prefix: Before that.
    """

    def __init__(self, tag: str, path: str = "", *, prefix: str = PREFIX) -> None:
        self.tag = tag
        self.path = prefix + path
        self.declared: list[Route] = []

    def get(self, path: str, **more: Any) -> Callable[[F], F]:
        """Declare what asks for something; ``more``: fields of :class:`Route`."""
        return self._declare("GET", path, False, more)

    def post(self, path: str, *, audited: bool = True, **more: Any) -> Callable[[F], F]:
        """Declare what does something; ``audited``: it is noted as ``<noun>.<function>``."""
        return self._declare("POST", path, audited, more)

    def delete(self, path: str, **more: Any) -> Callable[[F], F]:
        """Declare what removes something."""
        return self._declare("DELETE", path, True, more)

    def _declare(self, method: str, path: str, audited: bool, more: dict[str, Any]) -> Callable[[F], F]:
        # transitional names
        more = {
            {"answer": "said", "status_code": "status"}.get(name, name): value
            for name, value in more.items()
            if name != "hot"
        }

        def keep(handler: F) -> F:
            action = f"{self.tag.removesuffix('s')}.{handler.__name__}" if audited else None
            self.declared.append(Route(method, path, handler, action=action, **more))
            return handler

        return keep
