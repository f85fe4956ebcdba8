"""The store as requests use it: from the event loop, which no query may hold up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Connection

from corral.core.changes import Changes
from corral.store.engine import search
from corral.store.engine.writes import Write
from corral.store.protocol import Operation, Store, TooLong

P = ParamSpec("P")
T = TypeVar("T")


class StoreAccess:
    """Reads and writes of requests.

    Args:
        db: The database.
        changes: Notified when a write is durable.
    """

    def __init__(self, db: Store, changes: Changes) -> None:
        self._db = db
        self._changes = changes
        self._pending: list[tuple[Write[Any], asyncio.Future[None]]] = []
        # More threads would only wait for the interpreter's lock, which SQLite releases after every row.
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="read")

    async def write(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a write and return when it is durable. If the request is cancelled before, the write is not run."""
        loop = asyncio.get_running_loop()
        write, waiter = Write(operation, *args, **kwargs), loop.create_future()
        if not self._pending:
            loop.call_soon(self._submit)
        self._pending.append((write, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            write.unwanted = True
            raise
        return write.outcome()

    def _submit(self) -> None:
        """Submit all writes of one turn of the loop together: they share a commit, and the loop and the writer do not compete
        for the interpreter meanwhile.
        """
        pending, self._pending = self._pending, []
        waiters = [waiter for _write, waiter in pending]
        settled = partial(self._changes.call_in_loop, partial(self._wake, waiters))
        self._db.submit([write for write, _waiter in pending], settled)

    def _wake(self, waiters: Sequence[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._changes.announce_write()

    async def read(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query in a thread that runs only queries."""
        query = partial(self._db.read, operation, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._readers, query)

    async def read_inline(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a short query (a few rows by an index) in the loop's own thread, since a switch of threads takes longer.

        A query that is not short is broken off, and runs again in a thread.
        """
        try:
            return self._db.read_inline(operation, *args, **kwargs)
        except TooLong:
            return await self.read(operation, *args, **kwargs)

    async def search(self, table: str, operation: Callable[[Connection], T]) -> T:
        """Run a query that searches a table by words, after its index has learned all rows that exist at the call."""
        for _part in range(0, await self.read_inline(search.count_unlearned, table), search.AT_ONCE):
            await self.write(search.learn, table)
        return await self.read(operation)
