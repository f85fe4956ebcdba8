"""Remove a worktree that holds nobody's work, in whatever state commands left it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from corral.git.checkouts import worktrees
from corral.git.checkouts.identity import OwnWorktree, prove_folder, prove_remains
from corral.git.process.command import Git


def discard(repo: Git, own: OwnWorktree) -> None:
    """Empty the folder that was recorded, remove it, and let git forget it; safe to repeat.

    Its ``.git`` may name somebody's checkout by now: it is not followed. The folder is removed last, so that after a kill it is
    still the recorded one.

    Raises:
        PathReplaced: Something else stands there; it is not touched.
        OSError: One of its files could not be removed.
    """
    if os.path.lexists(own.path) and (own.folder_id is not None or any(own.path.iterdir())):
        prove_folder(own)
        make_writable(own.path)
        for entry in sorted(own.path.iterdir(), key=lambda entry: entry.name == ".git"):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    worktrees.repair(repo, own.path, None, lambda: prove_remains(repo, own), keeps=False)


def make_writable(path: Path) -> None:
    """Make ``path`` and every folder below it writable for us: e.g. a module cache is read-only.

    Raises:
        OSError: One is not ours to give.
    """
    path.chmod(path.stat().st_mode | stat.S_IRWXU)
    for parent, folders, _files in os.walk(path):
        for folder in folders:
            mode = os.lstat(os.path.join(parent, folder)).st_mode  # noqa: PTH118 - there are many
            if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(os.path.join(parent, folder), stat.S_IMODE(mode) | stat.S_IRWXU)  # noqa: PTH101, PTH118
