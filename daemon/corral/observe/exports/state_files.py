"""Files in the supervisor's folder: lines appended once and in order, whole files replaced at once, nothing through a link."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from corral.config.links import make_own_folder, refuse_links
from corral.core.crash import crash_point
from corral.core.errors import CorralError, FolderLinked

TAIL = 64 << 10
"""Bytes of a file's end that are read at first, to find its last line."""
MOST = 8 << 20
"""Bytes of a file of lines from which on the next lines begin a new one."""
KEPT = 4
"""Older files of lines that are kept: ``NAME.1`` is the newest of them."""
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def reason_of(error: OSError | FolderLinked, folder: Path) -> tuple[str, str]:
    """Why a file in this folder cannot be written, and the remedy."""
    if isinstance(error, CorralError):
        return f"{error.message} {error.cause}", error.remedy
    name = Path(error.filename).name if error.filename else folder
    return f"{name}: {error.strerror}", f"Make {folder} writable, or set `supervisor.state_dir`."


class Lines:
    """A file of JSON lines, each with its number: the last one says how far it has come.

    Whatever was killed at whatever point, the file goes on where its last whole line ends: a torn one is cut off, a missing
    file starts again where the one before it ends.

    Args:
        top: The project's folder, below which no part of the path may be a link.
        key: The field that is its number.
    """

    def __init__(self, path: Path, top: Path, key: str = "event_id") -> None:
        self.path = path
        self._key = key
        self._top = top
        self._known: dict[Path, tuple[tuple[int, int], int]] = {}

    def position(self, newest: int) -> int:
        """The number of the last line, of this file or else of the newest one before it; 0 if there is none.

        Args:
            newest: The last number of the database. A file that has come further is another database's: it is set aside.

        Raises:
            FolderLinked: A link stands in its place.
            OSError: It cannot be read or repaired.
        """
        for path in (self.path, *map(self._older_path, range(1, KEPT + 1))):
            if last := self._last_of(path, newest):
                return last
        return 0

    def _older_path(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def _last_of(self, path: Path, newest: int) -> int:
        refuse_links(path, self._top)
        try:
            before = path.lstat()
        except FileNotFoundError:
            self._known.pop(path, None)
            return 0
        known = self._known.get(path)
        if known is not None and known[0] == (before.st_ino, before.st_size):
            return known[1]
        handle = _opened(path, os.O_RDWR)
        try:
            last = _repaired(handle, self._key)
            self._note(path, handle, last)
        finally:
            os.close(handle)
        if last > newest:
            del self._known[path]
            path.replace(path.with_name(f"{path.name}.previous"))
            return 0
        return last

    def append(self, lines: Iterable[Mapping[str, Any]], text_of: Callable[[Any], str] = json.dumps) -> None:
        """Write lines behind all others, and let them reach the disk. A failure may leave a part, which is repaired later.

        Args:
            text_of: Makes a line's JSON, ASCII, with its number.
        """
        texts = [(int(line[self._key]), text_of(line)) for line in lines]
        if not texts:
            return
        make_own_folder(self.path.parent, self._top)
        self._known.pop(self.path, None)
        self._rotate()
        handle = _opened(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            _write(handle, "".join(f"{text}\n" for _, text in texts).encode())
            os.fsync(handle)
            self._note(self.path, handle, texts[-1][0])
        finally:
            os.close(handle)

    def _rotate(self) -> None:
        """Make a full file an older one. Each step renames one file, the oldest first: a kill in between loses none."""
        try:
            if self.path.lstat().st_size < MOST:
                return
        except FileNotFoundError:
            return
        free = next((number for number in range(1, KEPT) if not os.path.lexists(self._older_path(number))), KEPT)
        for number in range(free, 0, -1):
            self._older_path(number - 1).replace(self._older_path(number))
            self._known.pop(self._older_path(number), None)
            crash_point("exports.rotating")

    def _note(self, path: Path, handle: int, last: int) -> None:
        status = os.fstat(handle)
        self._known[path] = (status.st_ino, status.st_size), last


def replace(path: Path, content: bytes, top: Path) -> None:
    """Put a whole file in place at once; its folder is made.

    Raises:
        FolderLinked: A link stands in the place of the file or of a folder above it.
        OSError: It cannot be written.
    """
    make_own_folder(path.parent, top)
    refuse_links(path, top)
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    handle = _opened(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        _write(handle, content)
    finally:
        os.close(handle)
    partial.replace(path)


def _opened(path: Path, flags: int) -> int:
    handle = os.open(path, flags | _FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return handle


def _write(handle: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]


def _repaired(handle: int, key: str) -> int:
    """Cut a torn last line off; returns the number of the last line that has one."""
    size = os.fstat(handle).st_size
    part = TAIL
    while True:
        begin = max(0, size - part)
        tail = os.pread(handle, size - begin, begin)
        whole = tail.rfind(b"\n") + 1
        lines = tail[:whole].split(b"\n")[(0 if begin == 0 else 1) :]
        last = next((number for line in reversed(lines) if (number := _number(line, key)) is not None), None)
        if last is not None or begin == 0:
            break
        part *= 8
    if whole < len(tail):
        os.ftruncate(handle, begin + whole)
    return last or 0


def _number(line: bytes, key: str) -> int | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    number = entry.get(key) if isinstance(entry, dict) else None
    return number if type(number) is int else None
