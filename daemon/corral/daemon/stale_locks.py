"""Removes lock files that a killed git of ours left on refs that only Corral writes.

A living git holds a lock on such a ref for milliseconds. A lock that stays would block every later change of that ref, and so the
queue, for ever. The user's own locks (of the target's ref, a checkout's index) are never touched: a landing that meets one there
is held, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection

from corral.core.clock import now as clock
from corral.core.logs import logger
from corral.git.process import stale
from corral.git.process.command import Git
from corral.store.protocol import Store
from corral.work.merges.store import merges
from corral.work.tasks.store import tasks

OURS = ("refs/corral/", "refs/heads/corral/", "refs/notes/corral/")
LOOK_EVERY_S = 20.0
STALE_S = 10.0

START_STALE_S = 1.0
"""The same at the start: by then the gits of a daemon that has just been killed have ended."""

log = logger("stale_locks")


class StaleLocks:
    """Step: while work is open, check every :data:`LOOK_EVERY_S`.

    Args:
        db: Knows whether work is open.
        git: The repository.
    """

    def __init__(self, db: Store, git: Git) -> None:
        self._db = db
        self._git = git
        self._next: datetime | None = None

    def at_start(self, worktrees: Sequence[Path]) -> None:
        """Remove the locks that a dead daemon left, before recovery meets them; waits a moment for locks that are too young.

        Args:
            worktrees: The folders that Corral allocated. Only now: a commit of a living worker may hold the lock of its
                index for long, with nobody having the file open.
        """
        self._log_removed(stale.clear(self._git, clock(), refs=(), worktrees=worktrees))
        deadline = time.monotonic() + 3 * START_STALE_S
        while self._clear(clock(), START_STALE_S) and time.monotonic() < deadline:
            time.sleep(0.1)

    def step(self, now: datetime) -> datetime | None:
        """Check at most every :data:`LOOK_EVERY_S`; None when no work is open and no lock remains."""
        pause = timedelta(seconds=LOOK_EVERY_S)
        if self._next is not None and timedelta(0) < self._next - now <= pause:  # more, and the clock was set back
            return self._next
        self._next = now + pause
        remain = self._clear(now, STALE_S)
        return self._next if remain or self._db.read(_is_busy) else None

    def _clear(self, now: datetime, older_than_s: float) -> bool:
        """Remove stale locks; returns whether a lock of ours remains."""
        removed = stale.clear(self._git, now, refs=OURS, worktrees=[], older_than_s=older_than_s)
        packed = self._git.common_dir / "packed-refs.lock"
        with suppress(OSError):
            age_s = abs(now.timestamp() - packed.stat().st_mtime)
            # Every git that deletes a ref holds it, the user's too, without having it open: its age alone proves nothing.
            if age_s > STALE_S and not stale.may_be_gits(packed, self._git):
                packed.unlink()
                removed.append(packed)
        self._log_removed(removed)
        locks = stale.lock_files(self._git, now)
        return any(lock.path == packed or (lock.ref or "").startswith(OURS) for lock in locks)

    @staticmethod
    def _log_removed(removed: Sequence[Path]) -> None:
        for path in removed:
            log.warning("stale_lock_removed", path=str(path))


def _is_busy(conn: Connection) -> bool:
    return bool(tasks.count_open(conn) or merges.busy_targets(conn))
