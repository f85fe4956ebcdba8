"""Background jobs, as the nouns declare them. :mod:`corral.daemon.jobs` owns their threads, their clock and their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

Run = Callable[[datetime], "datetime | None"]
"""Reads the rows again, does what is due, and returns when it must be called again (None: only when nudged)."""


@dataclass(frozen=True)
class Step:
    """A background job.

    Attributes:
        name: The name for nudges.
        pause_s: Minimum seconds between two steps, for a job with many nudges whose delay does not matter.
        reads_events: Whether every commit nudges it.
        reads_settings: Whether a change of the settings nudges it.
    """

    name: str
    run: Run
    pause_s: float = 0.0
    reads_events: bool = False
    reads_settings: bool = False
