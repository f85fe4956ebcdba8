"""Requests of the screen, sent by a thread of their own, so that keys are answered while the daemon works."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

from corral.client.connection import Client
from corral.config.paths import Project
from corral.core.errors import CorralError

Job = tuple[Callable[[Client], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Requests(threading.Thread):
    """Runs the requests to the daemon one after the other; ends with the program.

    Args:
        project: The daemon's project; a request of a person starts a daemon that is away.
    """

    def __init__(self, project: Project) -> None:
        super().__init__(name="requests", daemon=True)
        self._client = Client(project)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """One request; raises what the daemon refuses."""
        return await self.run_with(lambda client: client.request(method, path, body, **more))

    async def run_with(self, job: Callable[[Client], Any]) -> Any:
        """Run several requests as one job."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._jobs.put((job, future, loop))
        return await future

    def stop(self) -> None:
        """End once the requests so far are answered."""
        self._jobs.put(None)

    def run(self) -> None:
        """Work off the requests."""
        while (entry := self._jobs.get()) is not None:
            job, future, loop = entry
            try:
                answer, error = job(self._client), None
            except (OSError, CorralError) as refused:
                answer, error = None, refused
            try:
                loop.call_soon_threadsafe(_settle, future, answer, error)
            except RuntimeError:  # the screen was closed meanwhile
                break
        self._client.close()


def _settle(future: asyncio.Future[Any], answer: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)
