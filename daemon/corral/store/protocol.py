"""The store as the rest of the package knows it, whichever database keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

from corral.core.errors import DatabaseDamaged
from corral.store.engine.writes import Write

P = ParamSpec("P")
T = TypeVar("T")
Operation = Callable[Concatenate[Connection, P], T]


class TooLong(Exception):
    """A query that should be short took too long."""


class Store(Protocol):
    """Transactions: each operation is a function of a connection, and of the arguments that are given with it.

    Attributes:
        damage: The error that every call raises once the database is damaged; None while it is sound.

    Raises:
        DatabaseUnavailable: From every method, where the database cannot be read or written; nothing was changed.
    """

    damage: DatabaseDamaged | None

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection on a consistent snapshot, for the caller's thread."""

    def read(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query, as :meth:`reading` does: ``db.read(tasks.get, task_id)``."""

    def read_inline(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query that is short, always in the same thread.

        Raises:
            TooLong: It was not short; nothing came of it.
        """

    def write(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a write and wait until it is durable."""

    def submit(self, writes: Sequence[Write[Any]], settled: Callable[[], None]) -> None:
        """Queue writes, which share a commit.

        Args:
            settled: Called from another thread once each of them is durable or has failed. It must not raise.
        """
