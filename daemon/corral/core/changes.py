"""Waiting for changes: a write wakes the requests that wait, so that none of them polls."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable


class Changes:
    """Wakes requests that wait in the event loop when something was stored."""

    def __init__(self) -> None:
        self._changed: set[asyncio.Event] = set()
        self._written: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: int | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop that serves requests; called in its thread."""
        self._loop, self._loop_thread = loop, threading.get_ident()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that serves requests; None before there is one."""
        return self._loop

    def call_in_loop(self, function: Callable[[], None]) -> None:
        """Have the loop call something, from any thread; nothing happens once the loop is closed."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(function)

    def announce(self) -> None:
        """Wake the requests that wait for a change. Callable from any thread."""
        if threading.get_ident() == self._loop_thread:
            self._wake()
        else:
            self.call_in_loop(self._wake)

    def announce_write(self) -> None:
        """Wake those that wait for any write: one is durable. Called in the loop."""
        for event in self._written:
            event.set()

    def _wake(self) -> None:
        for event in (*self._changed, *self._written):
            event.set()

    async def next(self, timeout_s: float) -> bool:
        """Wait for a change; False if none came within ``timeout_s`` seconds."""
        return await self._next(self._changed, timeout_s)

    async def next_write(self, timeout_s: float) -> bool:
        """Like :meth:`next`, but every write of a request wakes it too."""
        return await self._next(self._written, timeout_s)

    @staticmethod
    async def _next(waiting: set[asyncio.Event], timeout_s: float) -> bool:
        event = asyncio.Event()
        waiting.add(event)
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except (asyncio.TimeoutError, TimeoutError):
            return False
        finally:
            waiting.discard(event)
        return True
