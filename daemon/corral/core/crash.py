"""Named points where a test can kill the process, to prove that a restart finishes or undoes every step."""

from __future__ import annotations

import os
import signal

VARIABLE = "CORRAL_CRASH_AT"


def crash_point(name: str) -> None:
    """Kill this process with SIGKILL if ``CORRAL_CRASH_AT`` names this point; else do nothing."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
