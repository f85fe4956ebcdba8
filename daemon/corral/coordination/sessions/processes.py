"""Processes of sessions, as the system knows them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil


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


def started_at(pid: int) -> float | None:
    """When a process started (Unix time), against the reuse of its id; None if it is gone."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def is_running(pid: int, started: float | None) -> bool:
    """Whether the process with this id is still the one that started then."""
    try:
        process = psutil.Process(pid)
        same = started is None or abs(process.create_time() - started) < 1.0
        return same and process.status() != psutil.STATUS_ZOMBIE
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
