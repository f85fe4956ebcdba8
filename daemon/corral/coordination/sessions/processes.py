"""Processes of sessions, as the system knows them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

from corral.runners.process import is_same_start, start_time

UNIX_S = 1e9
"""Above it a start is Unix time. On Linux an earlier version recorded that, and it moved with the clock: the id alone decides."""


def upwards(pid: int) -> Iterator[int]:
    """A process, and those that it descends from, the nearest first, up to this daemon or to the system's first."""
    while True:
        yield pid
        try:
            pid = psutil.Process(pid).ppid()
        except psutil.Error:
            return
        if pid in (0, 1, os.getpid()):
            return


def is_start(recorded: float | None, begun: float | None) -> bool:
    """Whether a recorded start is that of the process which began then; None: it is not known, or the process is gone."""
    if recorded is None or (psutil.LINUX and recorded > UNIX_S):
        return True
    return begun is not None and is_same_start(begun, recorded)


def is_running(pid: int, started: float | None) -> bool:
    """Whether the process with this id is still the one that started then."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return is_start(started, start_time(pid))
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def terminal_of(pid: int | None) -> str | None:
    """The terminal that a process runs in, such as ``pts/3``; None without one, or where that cannot be known."""
    try:
        device = psutil.Process(pid).terminal() if pid is not None else None
    except psutil.Error:
        return None
    return device.removeprefix("/dev/") if device else None
