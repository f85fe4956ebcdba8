"""When every start fails for the same fault of the machine, no more tasks are claimed until one start succeeds.

Memory of the supervisor alone: after a restart the first starts show again how things are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from corral.config.sections.work import Tasks as TaskRules
from corral.runners.blame import TARGET_GONE
from corral.work.tasks.attempts import Ending, backoff_s

TASKS_TO_PAUSE = 2
"""Different tasks whose starts fail in a row, with no success in between, until claiming is paused."""

PROBE_AT_MOST_S = 60.0
"""Longest pause between two probes: the fault may be over at any time, and a probe costs one start."""

PROBE_AGAIN_S = 5.0
"""Until the next try where no task could be claimed for a probe."""


@dataclass(frozen=True)
class Pause:
    """Why nothing is claimed.

    Attributes:
        error_code: Of the fault, see :mod:`corral.runners.blame`.
        reason: What happened, for a person.
        remedy: The action that a person can take.
        since: When it was noticed.
        failures: Starts that failed in a row.
        probe_at: When one task is started to see whether the fault is over.
    """

    error_code: str
    reason: str
    remedy: str
    since: datetime
    failures: int
    probe_at: datetime


class ClaimPause:
    """Counts starts that the machine prevented; for the supervisor's step only."""

    def __init__(self) -> None:
        self.now: Pause | None = None
        self._failed: set[str] = set()
        self._code: str | None = None

    def start_failed(self, task_id: str, ending: Ending, now: datetime, rules: TaskRules) -> bool:
        """The machine kept a task from starting.

        Returns:
            Whether claiming is paused by it.
        """
        code = ending.error_code or ""
        if code == TARGET_GONE:
            return False  # that keeps only the tasks of that target
        if self.now is None and code != self._code:
            self._failed.clear()
        self._code = code
        self._failed.add(task_id)
        if self.now is None and len(self._failed) < TASKS_TO_PAUSE:
            return False
        failures = self.now.failures + 1 if self.now else len(self._failed)
        first = self.now is None
        longest_s = min(PROBE_AT_MOST_S, rules.retry_max_s)
        wait_s = backoff_s(failures - TASKS_TO_PAUSE + 1, initial_s=rules.retry_initial_s, max_s=longest_s)
        self.now = Pause(
            code,
            ending.error_message or code,
            ending.remedy or "See `corral daemon logs`.",
            self.now.since if self.now else now,
            failures,
            now + timedelta(seconds=wait_s),
        )
        return first

    def clear(self) -> bool:
        """A worker has started, or no task waits any more. Returns whether claiming was paused."""
        was_paused = self.now is not None
        self.now, self._code = None, None
        self._failed.clear()
        return was_paused

    def postpone(self, now: datetime) -> None:
        """A probe was due, and no task could be claimed for it."""
        if self.now is not None:
            self.now = replace(self.now, probe_at=now + timedelta(seconds=PROBE_AGAIN_S))

    def may_probe(self, now: datetime) -> bool:
        """Whether it is time to start one task; a clock that was set back makes nobody wait longer."""
        if self.now is None:
            return False
        if self.now.probe_at > now + timedelta(seconds=PROBE_AT_MOST_S):
            self.now = replace(self.now, probe_at=now)
        return now >= self.now.probe_at
