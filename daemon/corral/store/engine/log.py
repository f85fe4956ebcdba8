"""The write-ahead log: moved into the database file and cut by the writer, also while sessions never rest.

After a passive checkpoint the writer uses the log from its beginning again, once no reader is in it. The file keeps its length,
since overwriting a file becomes durable faster than appending to it; so it is cut only now and then.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

CHECKPOINT_EVERY = 100
"""Commits between two passive checkpoints,"""

CHECKPOINT_ROWS = 1000
"""or changed rows, if those come first: both take less log than :data:`LIMIT`, so that it is used again and not cut."""

CUT_AFTER_S = 5.0
"""Seconds after its first commit until a log is cut, once nobody waits for the writer; then the writer can sleep."""

LIMIT = 8 << 20
"""Bytes above which it is cut even if somebody waits, each time it has grown by as much."""

WAIT_ABOVE = 32 << 20
"""Bytes above which a cut waits for readers to finish; the log goes on growing only while one reader goes on reading."""

WAIT_MS = 50
"""Milliseconds of that wait; writers wait as long."""


class WriteAheadLog:
    """Decides when the log is moved and cut. For the writer's thread.

    Args:
        file: Its path.
        checkpoint: Makes a checkpoint, given its mode (``PASSIVE``, ``TRUNCATE``) and the milliseconds to wait for readers.
    """

    def __init__(self, file: str, checkpoint: Callable[[str, int], None]) -> None:
        self._file, self._checkpoint = file, checkpoint
        self._commits = self._rows = 0
        self._cut_above = LIMIT
        self._cut_at: float | None = None

    def due_in_s(self) -> float | None:
        """Seconds until :meth:`keep_short` must be called even if nothing is written; None: never."""
        return None if self._cut_at is None else max(0.0, self._cut_at - time.monotonic())

    def keep_short(self, *, changed_rows: int | None, is_quiet: bool) -> None:
        """Move or cut the log if it is due.

        Args:
            changed_rows: By the commit since the last call; None: there was none.
            is_quiet: Whether nobody waits for the writer.
        """
        size, now = self._size(), time.monotonic()
        if changed_rows is not None:
            self._commits, self._rows = self._commits + 1, self._rows + changed_rows
        if size == 0:
            self._cut_at = None
        elif size > self._cut_above or (is_quiet and self._cut_at is not None and now >= self._cut_at):
            self._checkpoint("TRUNCATE", WAIT_MS if size > WAIT_ABOVE else 0)
            # A reader, or a full disk, can prevent it; nothing is lost, and it is tried again.
            size, self._commits, self._rows = self._size(), 0, 0
            self._cut_above, self._cut_at = size + LIMIT, now + CUT_AFTER_S if size else None
        else:
            if self._commits >= CHECKPOINT_EVERY or self._rows >= CHECKPOINT_ROWS:
                self._checkpoint("PASSIVE", 0)
                self._commits = self._rows = 0
            if self._cut_at is None:
                self._cut_at = now + CUT_AFTER_S

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return os.stat(self._file).st_size  # noqa: PTH116 - after every commit
        return 0
