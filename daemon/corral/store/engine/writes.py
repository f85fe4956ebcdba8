"""Writes that wait for the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class Write(Generic[T]):
    """Something that is to be written, and, once it is settled, what came of it.

    Args:
        operation: Called with the writer's connection, inside a transaction, in the writer's thread. It must not block on
            anything but the database, and must not commit.

    Attributes:
        unwanted: Set when the caller went away: the write is left out, unless it has begun.
    """

    __slots__ = ("_result", "error", "operation", "unwanted")

    def __init__(self, operation: Callable[[Connection], T]) -> None:
        self.operation = operation
        self.error: BaseException | None = None
        self.unwanted = False

    def run(self, conn: Connection) -> None:
        """Do it."""
        self._result = self.operation(conn)

    def outcome(self) -> T:
        """The result of the operation, or its error, raised; for a settled write."""
        if self.error is not None:
            raise self.error
        return self._result


@dataclass(frozen=True)
class Bundle:
    """Writes that were asked for together, and whom to tell."""

    writes: Sequence[Write[Any]]
    settled: Callable[[], None]
