"""The pool as a whole: its bounds, what it did, and what every worktree in it has to be."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from corral.coordination.sessions.store import sessions
from corral.core.errors import GitFailed, PathReplaced
from corral.core.states import WorktreeState
from corral.git.checkouts import repointing
from corral.git.process.command import Git
from corral.runners.process import survivors, working_in
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.api import CountedReason, Pool

if TYPE_CHECKING:
    from corral.work.worktrees.allocation import WorktreeContext

SEAL = "corral-pool.json"
"""The file in git's entry of a kept worktree that says how it looked."""

MEBI = 1 << 20
"""Bytes of one MB."""


class Doubt(Exception):
    """Why a worktree is not kept, or not used; the text is the same for every worktree of that kind."""


@dataclass
class PoolUse:
    """The record of the pool since the daemon's start, and which worktrees are being looked at.

    Attributes:
        kept: Worktrees that were kept.
        used: Kept ones that a new worktree was made of.
        not_kept: By reason, those that were removed instead.
        not_used: By reason, how often a new worktree was made without one.
        doubts: By worktree, why it was passed over last.
    """

    kept: int = 0
    used: int = 0
    not_kept: Counter[str] = field(default_factory=Counter)
    not_used: Counter[str] = field(default_factory=Counter)
    doubts: dict[str, str] = field(default_factory=dict)
    _claimed: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def claim(self, worktree_id: str) -> bool:
        """Have a kept worktree for oneself until :meth:`let_go`; False: somebody else has it."""
        with self._lock:
            is_free = worktree_id not in self._claimed
            self._claimed.add(worktree_id)
            return is_free

    def let_go(self, worktree_id: str) -> None:
        """Give back what was claimed."""
        with self._lock:
            self._claimed.discard(worktree_id)

    def count_kept(self) -> None:
        """Count a worktree that was kept."""
        with self._lock:
            self.kept += 1

    def count_used(self) -> None:
        """Count a kept one that a new worktree was made of."""
        with self._lock:
            self.used += 1

    def count(self, reasons: Counter[str], reason: str) -> None:
        """Count a worktree that was not kept, or not used."""
        with self._lock:
            reasons[reason] += 1


def refuse_if_inhabited(context: WorktreeContext, path: Path, marks: dict[str, str]) -> None:
    """Refuse a worktree that somebody works in.

    Args:
        marks: The environment marks of the task that has just ended: no process with them may live or have a file in it open.

    Raises:
        Doubt: Somebody does.
    """
    if (marks and survivors(None, marks)) or working_in(path, files=bool(marks)):
        raise Doubt("a process works in it")
    if any(session["worktree"] == str(path) for session in context.db.read(sessions.live)):
        raise Doubt("a session works in it")


def refuse_extras(checkout: Git, *besides: str) -> None:
    """Refuse a worktree whose entry holds more than a new one's, ``besides`` apart.

    Raises:
        Doubt: It does.
    """
    extras = sorted(set(repointing.extras(checkout)) - set(besides))
    if extras:
        raise Doubt(f"git's entry of it holds {', '.join(extras)}")


def bounds(context: WorktreeContext) -> tuple[int, int]:
    """How many worktrees are kept at most, and how many MB they may take together."""
    settings = context.settings()
    return min(settings.worktrees.pool_size, settings.supervisor.max_agents), settings.worktrees.pool_disk_mb


def trim(context: WorktreeContext, give_up: Callable[[WorktreeRow, str], bool]) -> None:
    """Remove the oldest kept worktrees until the rest are within the bounds; all of them where the disk is nearly full."""
    with context.db.reading() as conn:
        rows = worktree_rows.listing(conn, states=(WorktreeState.POOLED,))
    most, disk_mb = bounds(context)
    if rows and is_short_of_space(context.places.volume):
        most = 0
    while rows and (len(rows) > most or sum(map(size, rows)) > disk_mb * MEBI):
        oldest = rows.pop(0)
        if context.pool.claim(oldest["worktree_id"]):
            try:
                give_up(oldest, "more were kept than worktrees.pool_size and worktrees.pool_disk_mb allow")
            finally:
                context.pool.let_go(oldest["worktree_id"])


def overview(context: WorktreeContext) -> Pool:
    """The kept worktrees, oldest first, their bounds, and what the pool did since the daemon's start."""
    with context.db.reading() as conn:
        rows = worktree_rows.listing(conn, states=(WorktreeState.POOLED,))
    most, disk_mb = bounds(context)
    use = context.pool
    return {
        "worktrees": [
            {
                "name": row["name"],
                "path": row["path"],
                "base_sha": row["base_sha"],
                "size_bytes": size(row),
                "kept_at": row["created_at"],
                "note": row["note"] or use.doubts.get(row["worktree_id"]),
            }
            for row in rows
        ],
        "size_bytes": sum(map(size, rows)),
        "most": most,
        "most_mb": disk_mb,
        "kept": use.kept,
        "used": use.used,
        "not_kept": _counts(use.not_kept),
        "not_used": _counts(use.not_used),
    }


def _counts(reasons: Counter[str]) -> list[CountedReason]:
    return [{"reason": reason, "count": count} for reason, count in reasons.most_common()]


def size(row: WorktreeRow) -> int:
    """The size of a kept worktree on the disk, bytes."""
    return int(row["provision"].get("size_bytes", 0))


def is_short_of_space(path: Path) -> bool:
    """Whether less than a twentieth of the volume is free, and less than a gibibyte: not the time to keep anything."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return False
    return usage.free < min(usage.total // 20, 1 << 30)


def look_of_index(checkout: Git) -> list[int]:
    """How the file of an index looks; git writes a new one with each change."""
    status = (checkout.git_dir / "index").stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def kind_of(reason: Exception) -> str:
    """A reason without the names in it, so that equal ones are counted together."""
    if isinstance(reason, Doubt):
        return str(reason)
    if isinstance(reason, PathReplaced):
        return "something else stands in its place"
    return "git failed in it" if isinstance(reason, GitFailed) else "a file or folder of it could not be used"
