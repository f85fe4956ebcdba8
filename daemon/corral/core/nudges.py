"""Waking the background jobs: an operation says which job has something to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from corral.core.changes import Changes

SOON_S = 0.5
"""Longest delay of a step that is not urgent, seconds."""


class Nudgeable(Protocol):
    """A background job, as far as an operation knows it."""

    def nudge(self) -> None:
        """Ask for a step soon. Cheap; any number of nudges before the step are one."""


class Nudges:
    """Wakes jobs, and with them the requests that wait for a change.

    Args:
        jobs: By name; more may come later.
        changes: Announced with each nudge.
    """

    def __init__(self, jobs: Mapping[str, Nudgeable], changes: Changes) -> None:
        self._jobs = jobs
        self._changes = changes
        self._soon: set[str] = set()

    def now(self, name: str) -> None:
        """Ask a job for a step now. Callable from any thread."""
        for job in (self._jobs.get(name), self._jobs.get("announcements"), self._jobs.get("roadmap")):
            if job is not None:
                job.nudge()
        self._changes.announce()

    def soon(self, name: str) -> None:
        """Ask a job for a step within :data:`SOON_S`, for frequent requests that nobody waits for; in the event loop."""
        if name not in self._soon and self._changes.loop is not None:
            self._soon.add(name)
            self._changes.loop.call_later(SOON_S, self._late, name)

    def _late(self, name: str) -> None:
        self._soon.discard(name)
        self.now(name)
