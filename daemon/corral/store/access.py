"""The store as requests use it: from the event loop, which no query may hold up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection

from corral.core.changes import Changes
from corral.store.engine import search
from corral.store.engine.writes import Write
from corral.store.protocol import Store, TooLong

T = TypeVar("T")


class StoreAccess:
    """Reads and writes of requests.

    Args:
        db: The database.
        changes: Told when a write is durable.
    """

    def __init__(self, db: Store, changes: Changes) -> None:
        self._db = db
        self._changes = changes
        self._asked: list[tuple[Write[Any], asyncio.Future[None]]] = []
        # More of them would spend their time waiting for the interpreter, which SQLite gives back after every row.
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="read")
        self._inline_reads = FairQueue()

    async def write(self, operation: Callable[[Connection], T]) -> T:
        """Run a write; the answer comes when it is durable. One whose request went away meanwhile is not run."""
        loop = asyncio.get_running_loop()
        write, waiter = Write(operation), loop.create_future()
        if not self._asked:
            loop.call_soon(self._submit)
        self._asked.append((write, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            write.unwanted = True
            raise
        return write.outcome()

    def _submit(self) -> None:
        """Hand the writer at once what was asked for in one turn of the loop: it shares a commit, and both do not take turns
        at the interpreter meanwhile.
        """
        asked, self._asked = self._asked, []
        waiters = [waiter for _write, waiter in asked]
        settled = partial(self._changes.call_in_loop, partial(self._wake, waiters))
        self._db.submit([write for write, _waiter in asked], settled)

    def _wake(self, waiters: Sequence[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._changes.announce_write()

    async def read(self, operation: Callable[[Connection], T]) -> T:
        """Run a query off the event loop, and never behind something slow."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._db.read, operation)

    async def read_inline(self, operation: Callable[[Connection], T]) -> T:
        """Run a query that as a rule finds little by an index: here and now, since a thread and back takes longer than it does.

        One that is not short is broken off, and made again in a thread.
        """
        await self._inline_reads.take()
        try:
            return self._db.read_inline(operation)
        except TooLong:
            return await self.read(operation)

    async def search(self, table: str, operation: Callable[[Connection], T]) -> T:
        """Run a query that searches a table by words, once its index has learned all that was there when it was asked for."""
        for _part in range(0, await self.read_inline(partial(search.behind, table=table)), search.AT_ONCE):
            await self.write(partial(search.learn, table=table))
        return await self.read(operation)


class FairQueue:
    """Lets one after another go on, each in a turn of the loop of its own, first come first served.

    Answers are sent at the end of a turn of the loop: of ten requests that are answered in one turn, the first would wait for the
    last.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False

    async def take(self) -> None:
        """Wait for one's turn; nobody else has one until the loop has turned."""
        if self._taken:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        else:
            self._pass_on_later()

    def _pass_on_later(self) -> None:
        self._taken = True
        asyncio.get_running_loop().call_soon(self._pass_on)

    def _pass_on(self) -> None:
        self._taken = False
        while self._waiting and not self._taken:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._pass_on_later()
