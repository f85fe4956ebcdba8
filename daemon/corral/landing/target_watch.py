"""Notices within a second that something other than Corral moved a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from corral.coordination.services import Services
from corral.core.steps import Step
from corral.git.process.command import Git
from corral.landing.queue import Queue
from corral.landing.rewinds import Rewinds

LOOK_EVERY = timedelta(seconds=1)
"""No watch sees every file system; a look reads a small file for each target that anything landed on."""


@dataclass(frozen=True)
class TargetWatch:
    """Step: have the queue look, once a target has moved.

    Attributes:
        nudge: Asks for a step of the queue.
    """

    rewinds: Rewinds
    repo: Git
    nudge: Callable[[], None]

    def step(self, now: datetime) -> datetime | None:
        """Look once."""
        if self.rewinds.has_moved(self.repo):
            self.nudge()
        return now + LOOK_EVERY


def job(services: Services) -> Step:
    """The job of this module."""
    watch = TargetWatch(services.of(Queue).rewinds, services.git, lambda: services.nudge("landing"))
    return Step("targets", watch.step)
