"""The job that seals logs in small steps, and retries those whose sealing failed or was interrupted.

A log is noted on the disk before its turn and the note goes when it is sealed, so that a killed daemon leaves it to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from corral.coordination.services import Services
from corral.core.crash import crash_point
from corral.core.logs import logger
from corral.core.needs import Fault, Need
from corral.core.sealing import is_sealed, seal_by_window, unsealed
from corral.core.steps import Step

NEXT = timedelta(milliseconds=10)
"""Between two windows of a log, for the requests that came meanwhile."""
AGAIN = timedelta(minutes=1)
"""Until the next try after one that failed."""
LOOK = timedelta(minutes=10)
"""Until the next look for logs whose sealing failed elsewhere."""

log = logger("logs")


class LogSealer:
    """Step: seal one window of one log.

    Args:
        logs: The folder of all logs.
        faults: Where a person is told that one cannot be sealed.
    """

    def __init__(self, logs: Path, faults: dict[str, Need]) -> None:
        self._logs = logs
        self._fault = Fault(faults, "log_sealing", "logs")
        self._waiting: list[Path] = []
        self._current: tuple[Path, Iterator[int]] | None = None
        self._failed: dict[Path, str] = {}

    def step(self, now: datetime) -> datetime | None:
        """Seal the next window of a log."""
        if self._current is None and not self._waiting:
            self._waiting, self._failed = unsealed(self._logs), {}
        if self._current is None and self._waiting:
            file = self._waiting.pop(0)
            self._current = file, seal_by_window(file)
        if self._current is not None:
            self._seal(*self._current)
        if self._current is not None or self._waiting:
            return now + NEXT
        return self._show(now)

    def _seal(self, file: Path, windows: Iterator[int]) -> None:
        try:
            if next(windows, None) is not None:
                crash_point("logs.window_sealed")
                return
        except OSError as error:
            self._failed[file] = error.strerror or str(error)
        else:
            is_sealed(self._logs, file)
        self._current = None

    def _show(self, now: datetime) -> datetime:
        if not self._failed:
            self._fault.end()
            return now + LOOK
        file, reason = next(iter(self._failed.items()))
        others = f" and {len(self._failed) - 1} others" if len(self._failed) > 1 else ""
        what = f"Secrets in the log {file}{others} could not be overwritten: {reason}. It is tried again every minute."
        if self._fault.show(what, f"Make {file.parent} and its files writable, or delete the log.", now):
            log.warning("logs_not_sealed", files=len(self._failed), first=str(file), reason=reason)
        return now + AGAIN


def job(services: Services) -> Step:
    """The job of this module."""
    return Step("log_sealing", LogSealer(services.project.logs_dir, services.faults).step)
