"""Time in which the daemon was awake: what limits on workers and verifications are measured in.

A machine that slept, a clock that was set, and a daemon that was stopped for a while have one thing in common: the wall
clock moved much further between two looks than a look is apart from the next, or it moved back.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

MOST_A_LOOK = timedelta(seconds=5)
"""Counted for the time between two looks at most; who measures something looks at least once a second."""


class AwakeClock:
    """Turns instants of the wall clock into instants of a clock that stands still while nobody looks.

    Thread-safe. Its instants can be compared with each other only: never store or show one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: datetime | None = None
        self._awake: datetime | None = None

    def at(self, now: datetime) -> datetime:
        """Look: the awake instant of this moment.

        Args:
            now: What the wall clock says.
        """
        with self._lock:
            if self._seen is None or self._awake is None:
                self._awake = now
            else:
                self._awake += min(max(now - self._seen, timedelta(0)), MOST_A_LOOK)
            self._seen = now
            return self._awake
