"""Background jobs: each is one ``step(now)``; the runner here owns the thread, the clock, the errors and the shutdown.

A job sleeps until the instant that its last step named, or until it is nudged; with nothing due it costs nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from corral.observe.logs import logger

Step = Callable[[datetime], "datetime | None"]

RETRY_S = 2.0
"""How long a job whose step raised waits before it looks again."""

log = logger("jobs")


def now() -> datetime:
    """The daemon's clock."""
    return datetime.now(timezone.utc)


class Job:
    """Runs one step function in a thread of its own.

    Args:
        name: For the log and the thread.
        step: Re-reads the truth, does what is due, says when it wants to be called again (None: only when nudged).
        pause_s: Least time between two steps, for one that much nudges and that nobody waits for to the millisecond.
    """

    def __init__(self, name: str, step: Step, *, pause_s: float = 0.0) -> None:
        self.name = name
        self._step = step
        self._pause_s = pause_s
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"job-{name}", daemon=True)

    def start(self) -> None:
        """Begin with a first step at once."""
        self._thread.start()

    def nudge(self) -> None:
        """Ask for a step soon. Cheap; any number of nudges before the step are one."""
        self._wake.set()

    def stop(self) -> None:
        """Let the step that runs finish, and run no other. Call :meth:`join` to wait."""
        self._stop.set()
        self._wake.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; False if it did not come in time."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            began = time.monotonic()
            try:
                due = self._step(now())
            except Exception:  # the edge of a job: logged, and looked at again; rows still hold the truth
                log.exception("step_failed", job=self.name)
                due = now() + timedelta(seconds=RETRY_S)
            if self._stop.is_set():
                return
            self._wake.wait(None if due is None else max(0.0, (due - now()).total_seconds()))
            self._stop.wait(max(0.0, began + self._pause_s - time.monotonic()))
