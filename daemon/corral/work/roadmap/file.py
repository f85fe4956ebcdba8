"""The roadmap's file: read as a whole, and replaced as a whole, never over a change that somebody else made meanwhile."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from corral.config.document import MAX_BYTES, DocumentError
from corral.config.ownership import is_foreign, is_safe

TRIES = 5
"""Tries of a change while others keep changing the file; the next round tries again."""

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Snapshot:
    """The file as it was read.

    Attributes:
        stamp: Differs after each change: its inode, modification time and size.
    """

    data: bytes
    stamp: Stamp
    mode: int


def read(path: Path) -> Snapshot:
    """Read the file.

    Raises:
        OSError: It cannot be read, or belongs to another user.
        DocumentError: It is no regular file, or too large, or is being written all the time.
    """
    if is_foreign(os.fspath(path)) and not is_safe(*path.parents):  # it names commands that are executed
        raise OSError("belongs to another user")
    for _try in range(TRIES):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            before = os.fstat(handle)
            if not stat.S_ISREG(before.st_mode):
                raise DocumentError("is not a regular file")
            with os.fdopen(os.dup(handle), "rb") as file:
                data = file.read(MAX_BYTES + 1)
            if _stamp(os.fstat(handle)) == _stamp(before):
                return Snapshot(data, _stamp(before), stat.S_IMODE(before.st_mode))
        finally:
            os.close(handle)
    raise DocumentError("is being written all the time")


def change(path: Path, edit: Callable[[bytes], bytes]) -> Snapshot | None:
    """Replace the file by what ``edit`` makes of it; where somebody wrote it meanwhile, of that.

    It is replaced in one step: a reader finds the former content or the new one, also after a crash.

    Returns:
        The file as it is then; None if others kept changing it, and nothing was written.

    Raises:
        OSError: It cannot be read or replaced.
        DocumentError: Of ``edit``, or as :func:`read`.
    """
    target = Path(os.path.realpath(path))
    for _try in range(TRIES):
        snapshot = read(target)
        data = edit(snapshot.data)
        if data == snapshot.data:
            return snapshot
        handle, name = tempfile.mkstemp(prefix=".roadmap-", suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), snapshot.mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                stamp = _stamp(os.fstat(file.fileno()))
            if stamp_of(target) == snapshot.stamp:
                Path(name).replace(target)
                return Snapshot(data, stamp, snapshot.mode)
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()
    return None


def stamp_of(path: Path) -> Stamp | None:
    """The stamp of the file now; None where it cannot be asked for."""
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_ino, status.st_mtime_ns, status.st_size)
