"""Background jobs, as the nouns declare them. :mod:`corral.daemon.jobs` owns their threads, their clock and their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

Run = Callable[[datetime], "datetime | None"]
"""Re-reads the truth, does what is due, and says when it wants to be called again (None: only when nudged)."""


@dataclass(frozen=True)
class Step:
    """A background job.

    Attributes:
        name: By which it is nudged.
        pause_s: Least time between two steps, for one that much nudges and that nobody waits for to the millisecond.
        reads_events: Whether it looks after every commit.
        reads_settings: Whether it looks when the settings changed.
    """

    name: str
    run: Run
    pause_s: float = 0.0
    reads_events: bool = False
    reads_settings: bool = False
