"""Taking over changed settings: once a change has settled, in a job of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

SETTLE_S = 0.2
"""A file that is being replaced is missing for a moment; it is read when it has been left alone so long."""


class Reloader:
    """Step: read the settings again, a moment after a file changed.

    Args:
        reload: Reads them.
        nudge: Asks for a step.
    """

    def __init__(self, reload: Callable[[], None], nudge: Callable[[], None]) -> None:
        self._reload = reload
        self._nudge = nudge
        self._asked = threading.Event()
        self._due: datetime | None = None

    def ask(self) -> None:
        """A file changed. Callable from any thread; never raises."""
        self._asked.set()
        self._nudge()

    def step(self, now: datetime) -> datetime | None:
        """Reload if it was asked for and nothing changed since the last look."""
        if self._asked.is_set():
            self._asked.clear()
            self._due = now + timedelta(seconds=SETTLE_S)
        if self._due is None or now < self._due:
            return self._due
        self._due = None
        self._reload()
        return None
