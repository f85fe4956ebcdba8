"""Declarations of routes: FastAPI's decorators without FastAPI, which is loaded when a request needs it.

A route is an async function that takes the services first. Its other parameters are what FastAPI makes of their names and
types; limits and descriptions are pydantic's ``Field``, and what a GET takes beside its path stands in the query.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

PREFIX = "/api/v1"
"""Before every path."""

TRANSPORT = "corral.transport"
"""In a request's scope: its connection, to find the process at the other end."""

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


@dataclass(frozen=True)
class Route:
    """One operation.

    Attributes:
        said: The type of its answer, where the handler returns a response that is made already.
        options: Those of FastAPI's ``add_api_route``.
        hot: Whether sessions call it all the time, so that it is answered without the framework.
        action: Its name in the audit; None: it is not noted there.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    options: dict[str, Any]
    hot: bool
    action: str | None = None
    said: Any = None

    @property
    def answer(self) -> Any:
        """The type of its answer."""
        return self.said or get_type_hints(self.handler, include_extras=True)["return"]


class Routes:
    """The operations of a module, in the order in which they are looked for.

    Args:
        tag: Their group in the OpenAPI document.
        prefix: Of their paths.
    """

    def __init__(self, tag: str, prefix: str = "") -> None:
        self.tag = tag
        self.prefix = prefix
        self.declared: list[Route] = []

    def get(self, path: str, *, hot: bool = False, **options: Any) -> Callable[[F], F]:
        """Declare what asks for something."""
        return self._declare("GET", path, options, hot, False)

    def post(self, path: str, *, hot: bool = False, audited: bool = True, **options: Any) -> Callable[[F], F]:
        """Declare what does something; ``audited``: it is noted as ``<noun>.<function>``."""
        return self._declare("POST", path, options, hot, audited)

    def delete(self, path: str, **options: Any) -> Callable[[F], F]:
        """Declare what removes something."""
        return self._declare("DELETE", path, options, False, True)

    def _declare(self, method: str, path: str, options: dict[str, Any], hot: bool, audited: bool) -> Callable[[F], F]:
        said = options.pop("answer", None)

        def keep(handler: F) -> F:
            action = f"{self.tag.removesuffix('s')}.{handler.__name__}" if audited else None
            self.declared.append(Route(method, path, handler, options, hot, action, said))
            return handler

        return keep
