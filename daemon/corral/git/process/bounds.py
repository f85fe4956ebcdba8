"""Bounds of a command, with everything that it starts: memory, disk and time.

A server decides how much git collects before git reads any of it. So the kernel limits the memory for the data of each process
of the command (Linux keeps that limit exactly), and Corral measures the whole group several times a second.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

LOOK_S = 0.25
MEMORY = 512_000_000
"""Bytes; a fetch of all that the disk may take needs less than half of it."""
_LIMITED = 'ulimit -d "$0" 2>/dev/null; exec "$@"'
"""Where the system has a lower limit already, or none of this kind, the measurements decide."""


class Bounds:
    """The bounds of one or several commands together; time counts from the first of them on.

    Args:
        folder: What the commands fill, measured with everything below it.
        disk: Bytes that they may add to it.
        time_s: Seconds.
        memory: Bytes: of each process its data, of all together what is resident.
    """

    def __init__(self, folder: Path, *, disk: int, time_s: float, memory: int = MEMORY) -> None:
        self._folder, self._size, self._disk = folder, folder_size(folder), disk
        self._time_s, self._memory = time_s, memory
        self._until: float | None = None
        self._looked_at = 0.0

    def limited(self, argv: Sequence[str]) -> list[str]:
        """A command whose processes get no more memory than they may."""
        return ["/bin/sh", "-c", _LIMITED, str(self._memory // 1024), *argv]

    def exceeded(self, leader: int) -> str:
        """Why the commands must be killed, as the end of a sentence; empty if they need not be.

        Args:
            leader: The process id of the one that runs, which leads its session.
        """
        now = time.monotonic()
        self._until = self._until or now + self._time_s
        if now >= self._until:
            return f"did not finish within {self._time_s:g} s and was killed"
        if now - self._looked_at < LOOK_S:
            return ""
        self._looked_at = now
        if folder_size(self._folder) - self._size > self._disk:
            return f"wrote more than {self._disk} bytes and was killed"
        is_over = _resident(leader) > self._memory
        return f"used more than {self._memory // 1_000_000} MB of memory and was killed" if is_over else ""

    def refused(self, stderr: bytes) -> str:
        """Like :meth:`exceeded`, for a command that failed because it got no more memory."""
        is_out = b"ut of memory" in stderr or b"MemoryError" in stderr
        return f"ended for want of memory, of which it gets {self._memory // 1_000_000} MB" if is_out else ""


def folder_size(folder: Path) -> int:
    """The bytes of the files below a folder; what disappears meanwhile counts as nothing."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += (Path(place) / name).lstat().st_size
    return size


def _resident(leader: int) -> int:
    """The resident bytes of a session's processes, also of those whose parent has ended."""
    import psutil  # imported here: only a fetch needs it

    size = 0
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(pid) == leader:
                size += psutil.Process(pid).memory_info().rss
    return size
