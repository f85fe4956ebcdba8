"""Logs that several processes append to without a daemon, bounded in size. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

LIMIT = 1_000_000
"""Bytes above which a log is put aside as ``<name>.1``, in place of the one before."""


def open_log(path: Path) -> int:
    """Open a log for reading and appending; one that is longer than :data:`LIMIT` is put aside first.

    Any number of processes may do this at once: whoever put it aside held its lock, and the others see that another file
    stands at the path. A line of one who had it open already is the last of the old one.

    Returns:
        A file descriptor, which the caller closes.

    Raises:
        OSError: It cannot be opened, or is a symbolic link.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size <= LIMIT:
                return fd
            fcntl.flock(fd, fcntl.LOCK_EX)
            if _is_at(path, fd):
                path.replace(path.with_name(f"{path.name}.1"))
        except OSError:  # its folder cannot be written: a long log is better than none
            return fd
        os.close(fd)


def append_line(path: Path, line: str) -> None:
    """Append one line.

    Raises:
        OSError: It cannot be written.
    """
    fd = open_log(path)
    try:
        os.write(fd, f"{line}\n".encode("utf-8", "replace"))
    finally:
        os.close(fd)


def shorten(path: Path) -> None:
    """Put a log aside that others only append to, if it is too long. What cannot be done is left."""
    with contextlib.suppress(OSError):
        if path.lstat().st_size > LIMIT:
            os.close(open_log(path))


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except FileNotFoundError:
        return False
