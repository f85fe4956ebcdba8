"""The daemon's clock: the one place that reads the machine's time; domain code gets instants as arguments."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone


def now() -> datetime:
    """This instant, in UTC."""
    return datetime.now(timezone.utc)


# -- Time in which the daemon was awake: the clock for limits on workers and verifications.
#
# After a machine slept, a clock was set, or a daemon was stopped, the wall clock moved much further between two
# readings than readings are apart, or it moved back.

LONGEST_STEP = timedelta(seconds=5)
"""Most that is counted between two readings; a measurement is read at least once a second."""


class AwakeClock:
    """Converts wall-clock instants to a clock that stands still between readings.

    Thread-safe. Its instants can only be compared with each other: never store or show one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_reading: datetime | None = None
        self._awake: datetime | None = None

    def at(self, now: datetime) -> datetime:
        """Read the clock: the awake instant of this moment.

        Args:
            now: The wall clock.
        """
        with self._lock:
            if self._last_reading is None or self._awake is None:
                self._awake = now
            else:
                self._awake += min(max(now - self._last_reading, timedelta(0)), LONGEST_STEP)
            self._last_reading = now
            return self._awake
