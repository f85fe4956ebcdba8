"""Short work on the event loop, one piece in each of its turns."""

from __future__ import annotations

import asyncio
from collections import deque


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
