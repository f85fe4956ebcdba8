"""Lock files that a killed git left behind: find them, tell them from live ones, and remove only ours."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

from corral.git.checkouts.listing import admin_dirs, folder_of
from corral.git.process import running
from corral.git.process.command import Git

_IN_EVERY_WORKTREE = ("index.lock", "HEAD.lock")
_IN_COMMON = ("config.lock", "packed-refs.lock", "shallow.lock", "gc.pid.lock", "objects/maintenance.lock")

_CLOCK_SLACK_S = 0.5  # a process's start and a file's time come from slightly different clocks


@dataclass(frozen=True)
class LockFile:
    """A lock file. ``ref`` is the ref it locks, ``worktree`` the folder whose index or HEAD it locks; else None."""

    path: Path
    age_s: float
    ref: str | None
    worktree: Path | None


def lock_files(repo: Git, now: datetime) -> list[LockFile]:
    """Every lock file in a repository, with its age."""
    candidates: list[tuple[Path, str | None, Path | None]] = []
    for admin in admin_dirs(repo):
        candidates += [(admin / name, None, folder_of(admin)) for name in _IN_EVERY_WORKTREE]
    common = repo.common_dir
    candidates += [(common / name, None, None) for name in _IN_COMMON]
    for path in (common / "refs").rglob("*.lock"):
        candidates.append((path, path.relative_to(common).as_posix().removesuffix(".lock"), None))
    locks = []
    for path, ref, worktree in candidates:
        try:
            age_s = abs(now.timestamp() - path.stat().st_mtime)  # of the future: the clock was set back since
        except OSError:  # gone, or in a folder that we may not read
            continue
        locks.append(LockFile(path, age_s, ref, worktree))
    return locks


def is_open(path: Path) -> bool:
    """Whether a process that we may inspect has this file open."""
    real_path = str(path.resolve())
    for process in psutil.process_iter():
        try:
            if any(file.path == real_path for file in process.open_files()):
                return True
        except (psutil.Error, OSError):  # it ended, or we may not inspect it
            continue
    return False


def may_be_gits(path: Path, repo: Git) -> bool:
    """Whether a living git of this repository is older than this lock file: it may hold the lock without opening it."""
    try:
        created_s = path.stat().st_mtime
    except FileNotFoundError:
        return False
    for process in running.in_repository(repo):
        try:
            if process.create_time() <= created_s + _CLOCK_SLACK_S:
                return True
        except (psutil.Error, OSError):
            continue
    return is_open(path)


def clear(
    repo: Git, now: datetime, *, refs: Sequence[str], worktrees: Sequence[Path], older_than_s: float = 60
) -> list[Path]:
    """Remove old lock files in our refs and worktrees that no process holds.

    Args:
        refs: Prefixes of the refs that only Corral moves (``refs/corral/``, ``refs/heads/corral/``).
        worktrees: Folders of the worktrees that Corral allocated.
        older_than_s: Minimum age of a lock to remove, seconds.

    Returns:
        The removed files.
    """
    ours = {path.resolve() for path in worktrees}
    removed = []
    for lock in lock_files(repo, now):
        owned = (
            (lock.ref or "").startswith(tuple(refs))
            if lock.ref
            else lock.worktree is not None and lock.worktree.resolve() in ours
        )
        if owned and lock.age_s > older_than_s and not _is_held(lock):
            with suppress(OSError):  # a lock that cannot be removed stays; the next git reports it
                lock.path.unlink()
                removed.append(lock.path)
    return removed


def _is_held(lock: LockFile) -> bool:
    """Whether a process holds the lock: a commit with an open editor holds it for hours, without opening it."""
    return is_open(lock.path) or (lock.ref is None and bool(running.in_checkout(Git(lock.path.parent))))
