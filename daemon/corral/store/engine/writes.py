"""Writes that wait for the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection

P = ParamSpec("P")
T = TypeVar("T")


class Write(Generic[T]):
    """A write, and, once it is settled, its result or error.

    Args:
        operation: Called with the writer's connection and the arguments, inside a transaction, in the writer's thread. It must
            not block on anything but the database, and must not commit.

    Attributes:
        unwanted: Set when the caller was cancelled: the write is skipped, unless it has begun.
    """

    __slots__ = ("_args", "_kwargs", "_result", "error", "operation", "unwanted")

    def __init__(self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> None:
        self.operation: Callable[..., T] = operation
        self._args, self._kwargs = args, kwargs
        self.error: BaseException | None = None
        self.unwanted = False

    def run(self, conn: Connection) -> None:
        """Run the operation and keep its result."""
        self._result = self.operation(conn, *self._args, **self._kwargs)

    def outcome(self) -> T:
        """The result of the operation, or its error, raised; for a settled write."""
        if self.error is not None:
            raise self.error
        return self._result


@dataclass(frozen=True)
class Bundle:
    """Writes that were submitted together, and the function to call when they are settled."""

    writes: Sequence[Write[Any]]
    settled: Callable[[], None]
