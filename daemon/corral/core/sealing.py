"""Seal logs that programs wrote by themselves: every secret in one is overwritten, once nobody writes to it any more.

A mask has as many bytes as the secret, so a log keeps its length, and its followers keep their position. Sealing is idempotent,
so it is repeated after a crash.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote

from corral.core.logs import logger
from corral.core.redaction import REDACTED, secret_spans

log = logger("logs")

WINDOW = 1 << 20
"""Bytes that are searched at once."""
UNSEALED = "unsealed"
"""Folder among the logs with an empty file for each log that is to be sealed, named by its path in quotes."""
OVERLAP = 64 << 10
"""Maximum number of bytes that two windows share: a secret may lie on the border."""


def seal(file: Path) -> int:
    """Overwrite the secrets in a log; returns how many. Nothing happens if there is none, or a link in its place.

    Raises:
        OSError: It cannot be read or written.
    """
    return sum(seal_by_window(file))


def seal_by_window(file: Path) -> Iterator[int]:
    """Like :func:`seal`, a window at a time; yields the number of secrets in each."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno == errno.ELOOP:
            return
        raise
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return
        count = 0
        for secrets in _secrets(descriptor):
            for offset, size in secrets:
                os.pwrite(descriptor, _mask(size), offset)
            count += len(secrets)
            yield len(secrets)
        if count:
            os.fsync(descriptor)
            os.utime(descriptor, ns=(before.st_atime_ns, before.st_mtime_ns))  # its age is that of its last output
    finally:
        os.close(descriptor)


def seal_where_possible(logs: Path, folder: Path, beginning: str = "") -> None:
    """Seal each log of a folder, or those whose names begin so.

    One that fails, or that a crash interrupts, is sealed later: see :func:`put_off`.

    Args:
        logs: The folder of all logs.
        folder: One in it, or itself.
    """
    for file in sorted(folder.glob("*.log")):
        if file.name.startswith(beginning) and not file.is_symlink():
            put_off(logs, file)
            try:
                seal(file)
            except OSError as error:
                log.warning("log_not_sealed", file=str(file), reason=str(error))
            else:
                is_sealed(logs, file)


def put_off(logs: Path, file: Path) -> None:
    """Record on the disk that a log must still be sealed, for the job of this daemon or of the next one."""
    try:
        (logs / UNSEALED).mkdir(mode=0o700, exist_ok=True)
        _note(logs, file).touch(mode=0o600)
    except OSError as error:
        log.warning("log_sealing_not_noted", file=str(file), reason=str(error))


def unsealed(logs: Path) -> list[Path]:
    """The logs that are still to be sealed.

    Raises:
        OSError: The notes cannot be read.
    """
    notes = sorted((logs / UNSEALED).iterdir()) if (logs / UNSEALED).is_dir() else []
    names = [PurePosixPath(unquote(note.name)) for note in notes]
    return [logs / name for name in names if not name.is_absolute() and ".." not in name.parts]


def is_sealed(logs: Path, file: Path) -> None:
    """Remove the record on a log. If it stays, the log is sealed again, which changes nothing."""
    with contextlib.suppress(OSError):
        _note(logs, file).unlink(missing_ok=True)


def _note(logs: Path, file: Path) -> Path:
    return logs / UNSEALED / quote(str(file.relative_to(logs)), safe="")


def _secrets(descriptor: int) -> Iterator[list[tuple[int, int]]]:
    """Offset and length, in bytes, of each secret, for one window after the other; the windows overlap."""
    start, end = 0, os.fstat(descriptor).st_size
    while start < end:
        data = os.pread(descriptor, WINDOW + OVERLAP, start)
        if not data:
            return
        is_last = start + len(data) >= end
        following = len(data) if is_last else _border(data)
        text = data.decode("utf-8", "surrogateescape")
        spans: list[tuple[int, int]] = []
        for first, last in secret_spans(text):
            offset = _bytes(text[:first])
            size = _bytes(text[first:last])
            if last == len(text) and not is_last and offset:
                following = min(following, offset)  # it may go on: the next window sees it from its beginning
                break
            spans.append((start + offset, size))
            following = max(following, offset + size)
        yield spans
        start += following


def _border(data: bytes) -> int:
    """The begin of the next window: that of a line, if one begins within the overlap."""
    line = data.find(b"\n", WINDOW)
    if line >= 0:
        return line + 1
    at = WINDOW
    while at > WINDOW - 4 and data[at] & 0xC0 == 0x80:  # in no character's middle
        at -= 1
    return at


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _mask(size: int) -> bytes:
    mask = REDACTED.encode()
    return mask.ljust(size, b"*") if size >= len(mask) else b"*" * size
