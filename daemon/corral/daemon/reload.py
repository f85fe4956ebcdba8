"""Reloading changed settings: once a change has settled, in a job of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

SETTLE_S = 0.2
"""Seconds without a change after which files are read: a file that is being replaced is missing for a moment."""


class Reloader:
    """Step: read the settings again, a moment after a file changed.

    Args:
        reload: Reads them.
        nudge: Asks for a step.
    """

    def __init__(self, reload: Callable[[], None], nudge: Callable[[], None]) -> None:
        self._reload = reload
        self._nudge = nudge
        self._asked = deque[threading.Event]()
        self._waiting: list[threading.Event] = []
        self._due: datetime | None = None

    def ask(self) -> threading.Event:
        """Request a reload. Callable from any thread; never raises. The returned event is set once the files were read."""
        self._asked.append(read := threading.Event())
        self._nudge()
        return read

    def step(self, now: datetime) -> datetime | None:
        """Reload if it was requested and nothing has changed for :data:`SETTLE_S`."""
        if self._asked:
            self._waiting += (self._asked.popleft() for _ in range(len(self._asked)))
            self._due = now + timedelta(seconds=SETTLE_S)
        if self._due is None or now < self._due:
            return self._due
        self._due = None
        try:
            self._reload()
        finally:
            for read in self._waiting:
                read.set()
            self._waiting.clear()
        return None
