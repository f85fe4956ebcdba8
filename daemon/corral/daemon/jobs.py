"""Background jobs: each is one ``step(now)``; the runner here owns the thread, the clock, the errors and the shutdown.

A job sleeps until the instant that its last step named, or until it is nudged; with nothing due it costs nothing.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from corral.core.clock import now
from corral.core.errors import CorralError, DatabaseDamaged
from corral.core.instants import iso
from corral.core.logs import logger
from corral.core.needs import Need
from corral.core.redaction import redact
from corral.core.steps import Step

SHOWN_AFTER = 2
"""Consecutive failed steps after which a job is shown among the needs of a person."""

RETRY_S = 2.0
"""Seconds that a job waits after its step raised."""

log = logger("jobs")


class Job:
    """Runs one step function in a thread of its own.

    Args:
        step: The job; a step that returns an instant within its pause, but after its own, is called then.
        faults: The needs of a person, to which a job that keeps failing is added.
    """

    def __init__(self, step: Step, faults: dict[str, Need]) -> None:
        self.name = step.name
        self._faults = faults
        self._failures = 0
        self._step = step.run
        self._pause_s = step.pause_s
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"job-{step.name}", daemon=True)

    def start(self) -> None:
        """Start the thread; the first step runs at once."""
        self._thread.start()

    def nudge(self) -> None:
        """Ask for a step soon. Cheap; any number of nudges before the step are one."""
        if not self._wake.is_set():  # a step clears it before it reads: it sees everything stored until then
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
            began, at = time.monotonic(), now()
            try:
                due = self._step(at)
                self._note_success()
            except DatabaseDamaged:  # reported once, where it was detected; another step would fail the same way
                due = None
            except Exception as error:  # the edge of a job: logged and tried again; the rows still hold the truth
                log.exception("step_failed", job=self.name)
                self._note_failure(error)
                began, at = time.monotonic(), now()
                due = at + timedelta(seconds=RETRY_S)
            if self._stop.is_set():
                return
            # Measured from the step's own instant, so that a clock that was set meanwhile causes no long wait.
            took_s = time.monotonic() - began
            self._wake.wait(None if due is None else max(0.0, (due - at).total_seconds() - took_s))
            delay_s = (due - at).total_seconds() if due is not None else 0.0
            pause_s = min(self._pause_s, delay_s) if delay_s > 0 else self._pause_s
            self._stop.wait(max(0.0, began + pause_s - time.monotonic()))

    def _note_success(self) -> None:
        if self._failures:
            self._failures = 0
            self._faults.pop(f"job {self.name}", None)

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == SHOWN_AFTER:
            message = error.message if isinstance(error, CorralError) else f"{type(error).__name__}: {error}"
            what = f"A part of the daemon ({self.name}) fails and is tried again every {RETRY_S:g} s: {redact(message)}"
            self._faults[f"job {self.name}"] = Need("failing_job", what, "corral daemon logs", iso(now()))
