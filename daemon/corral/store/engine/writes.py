"""Writes that wait for the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class Write(Generic[T]):
    """A write, and, once it is settled, its result or error.

    Args:
        operation: Called with the writer's connection, inside a transaction, in the writer's thread. It must not block on
            anything but the database, and must not commit.

    Attributes:
        unwanted: Set when the caller was cancelled: the write is skipped, unless it has begun.
    """

    __slots__ = ("_result", "error", "operation", "unwanted")

    def __init__(self, operation: Callable[[Connection], T]) -> None:
        self.operation = operation
        self.error: BaseException | None = None
        self.unwanted = False

    def run(self, conn: Connection) -> None:
        """Run the operation and keep its result."""
        self._result = self.operation(conn)

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
