"""Size-limited logs that several processes append to without a daemon. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

LIMIT = 1_000_000
"""Maximum size in bytes; a longer log is renamed to ``<name>.1``, which replaces the previous one."""

DRY_RUN_LOG = "verification-dry-run.log"
"""The log of the dry run of a verification, in the folder of logs."""


def open_log(path: Path) -> int:
    """Open a log for reading and appending; one longer than :data:`LIMIT` is renamed first.

    Safe for concurrent processes: the renaming process holds the log's lock, and the others notice that the path has a
    new file. A process that had the log open writes one last line to the old file.

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
        except OSError:  # the folder cannot be written: a long log is better than none
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
    """Rename a log that is too long and that others only append to. Failures are ignored."""
    with contextlib.suppress(OSError):
        if path.lstat().st_size > LIMIT:
            os.close(open_log(path))


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except FileNotFoundError:
        return False
