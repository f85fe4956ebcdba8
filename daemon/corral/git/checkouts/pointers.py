"""The two files by which a linked worktree and its repository name each other, repaired after a move.

The folder's ``.git`` names its entry in the repository, the entry's ``gitdir`` names the folder. ``git worktree
repair`` would write into every folder that an entry names, even if another repository's worktree is there now.
"""

from __future__ import annotations

import os
from pathlib import Path

from corral.core.crash import crash_point
from corral.core.errors import Conflict
from corral.git.checkouts.listing import admin_dirs, folder_of, list_lock, named_entry
from corral.git.process.command import Git


def reanchor(repo: Git, path: Path, *, was_at: Path, old_common_dir: Path) -> bool:
    """Make a worktree and its entry name each other again after the repository, the worktree, or both were moved.

    Safe to repeat, and after a kill in the middle. Writes only the worktree's ``.git`` file and its entry in this
    repository, each atomically. A worktree without an entry is left to :func:`corral.git.checkouts.worktrees.repair`.

    Args:
        repo: The repository at its present path.
        path: The worktree's present path; it may be missing.
        was_at: Its former path.
        old_common_dir: The former path of the repository's common directory.

    Returns:
        False: the folder at ``path`` is not this repository's worktree; nothing was written.
    """
    with list_lock(repo):
        named = named_entry(path)
        entry = _entry_of(repo, path, was_at)
        is_plain = not (path.is_symlink() or (path / ".git").is_symlink() or (path / ".git").is_dir())
        if not is_plain or (named and not _is_ours(repo, named, old_common_dir, has_moved=path != was_at)):
            return False
        if entry is None:
            return True
        if named and named.name != entry.name:
            return False
        _write(entry / "gitdir", f"{path / '.git'}\n")
        if named:
            _write(path / ".git", f"gitdir: {entry}\n")
    return True


def move(repo: Git, path: Path, to: Path) -> None:
    """Rename a worktree's folder; its entry names it again afterwards. After a kill in the middle: :func:`reanchor`.

    The folder keeps its inode, which proves it; a process that works in it does not notice.

    Raises:
        Conflict: Something stands at ``to``.
        OSError: It could not be renamed.
    """
    if os.path.lexists(to):
        raise Conflict(f"{to} exists already.", remedy="Move it away.")
    path.rename(to)
    crash_point("worktree.renamed")
    reanchor(repo, to, was_at=path, old_common_dir=repo.common_dir)


def _entry_of(repo: Git, path: Path, was_at: Path) -> Path | None:
    places = {os.path.realpath(path), os.path.realpath(was_at)}
    for admin in admin_dirs(repo)[1:]:
        if (admin / "gitdir").is_file() and os.path.realpath(folder_of(admin)) in places:
            return admin
    return None


def _is_ours(repo: Git, named: Path, old_common_dir: Path, *, has_moved: bool) -> bool:
    """Whether the entry that a folder names belongs, or before the move belonged, to this repository."""
    if named.parent == repo.common_dir / "worktrees":
        return True
    # A folder that was not moved belongs to the repository that is at the former path now.
    return named.parent == old_common_dir / "worktrees" and (has_moved or not named.exists())


def _write(file: Path, text: str) -> None:
    partial = file.with_name(f"{file.name}.corral-new")
    partial.unlink(missing_ok=True)
    partial.write_text(text, encoding="utf-8", errors="surrogateescape")
    partial.replace(file)
