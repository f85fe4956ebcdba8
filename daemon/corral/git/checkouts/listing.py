"""The list of a repository's worktrees: read it, and lock it while Corral changes it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

from corral.core import files
from corral.core.crash import crash_point
from corral.core.errors import Conflict
from corral.git import refs
from corral.git.process.command import Git, Result

_LOCK_WAIT_S = 120.0
_ATTEMPTS = 10


@dataclass(frozen=True)
class Entry:
    """A worktree as git lists it; ``branch`` is a full ref, ``locked`` the reason (maybe ``""``), None: not locked."""

    path: Path
    head: str | None
    branch: str | None
    locked: str | None
    prunable: bool
    bare: bool


def entries(repo: Git) -> list[Entry]:
    """All worktrees, the main one (or the bare repository) first."""
    text = _list(repo).text
    listed = []
    for block in text.split("\0\0"):
        fields = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        if fields:
            head = fields.get("HEAD", "")
            listed.append(
                Entry(
                    path=Path(fields["worktree"]),
                    head=head if head.strip("0") else None,
                    branch=fields.get("branch"),
                    locked=fields.get("locked"),
                    prunable="prunable" in fields,
                    bare="bare" in fields,
                )
            )
    if listed and listed[0].path == repo.common_dir and not listed[0].bare:
        # In a submodule, or with --separate-git-dir, git names the git directory instead of the main checkout.
        listed[0] = replace(listed[0], path=work_tree_of(repo, repo.common_dir) or listed[0].path)
    return listed


def _list(repo: Git) -> Result:
    result = repo.run("worktree", "list", "--porcelain", "-z")
    for _ in range(_ATTEMPTS):
        if result.ok:
            break
        with list_lock(repo):  # git refuses to read an entry that is just being written
            result = repo.run("worktree", "list", "--porcelain", "-z")
    if not result.ok:
        raise result.failure()
    return result


def holding(repo: Git, ref: str, listed: Sequence[Entry] | None = None) -> list[Entry]:
    """The worktrees that have a branch checked out, without those of another repository.

    Includes worktrees whose folder is missing: it may have been deleted, or moved away and come back.

    Args:
        listed: The :func:`entries` of just now, if they were read.
    """
    holders = [
        entry
        for entry in (entries(repo) if listed is None else listed)
        if entry.branch == ref and not is_foreign(repo, entry.path)
    ]
    main = Git(repo.common_dir, repo.common_dir.parent)
    # A `core.bare` set by accident hides the user's checkout from git, but not from this function.
    if repo.common_dir.name == ".git" and (repo.common_dir / "index").exists() and refs.checked_out(main) == ref:
        main_entry = Entry(repo.common_dir.parent, main.head(), ref, None, False, False)
        holders = [main_entry, *(entry for entry in holders if entry.path.resolve() != main_entry.path.resolve())]
    return holders


def is_foreign(repo: Git, folder: Path) -> bool:
    """Whether a listed folder is a worktree of another repository, as after copying a git directory."""
    whole = folder / ".git"
    named = whole if whole.is_dir() else named_entry(folder)
    if named is None or not (named / "HEAD").is_file():
        return False
    return repo.common_dir.resolve() not in (named.resolve(), named.parent.parent.resolve())


def named_entry(folder: Path) -> Path | None:
    """The git directory named in the ``.git`` file of a linked worktree; None if there is no such file."""
    try:
        kind, _, named = (folder / ".git").read_text(errors="surrogateescape").rstrip("\n").partition("gitdir: ")
    except OSError:
        return None
    return Path(os.path.normpath(folder / named)) if named and not kind else None


def checkout_of(repo: Git, full_ref: str) -> Path | None:
    """The top of the worktree that has this branch checked out."""
    holders = holding(repo, full_ref)
    return holders[0].path if holders else None


def admin_dirs(repo: Git) -> list[Path]:
    """The git directories of all worktrees: the common one, and one for each linked worktree."""
    return [repo.common_dir, *sorted((repo.common_dir / "worktrees").glob("*"))]


def folder_of(admin: Path) -> Path:
    """The folder of a git directory from :func:`admin_dirs`."""
    try:
        text = (admin / "gitdir").read_text(errors="surrogateescape").rstrip("\n")
    except OSError:
        return admin.parent if admin.name == ".git" else admin
    return Path(os.path.normpath(admin / text)).parent


def work_tree_of(repo: Git, admin: Path) -> Path | None:
    """The top of the checkout of a git directory from :func:`admin_dirs`; None: it has none, or another repository's is there."""
    if admin != repo.common_dir:
        folder = folder_of(admin)
        return None if is_foreign(repo, folder) else folder
    named = repo.run("config", "--get", "core.worktree").text.rstrip("\n")
    if named:
        return Path(os.path.normpath(admin / named))
    return admin.parent if admin.name == ".git" else None


@contextmanager
def list_lock(repo: Git) -> Iterator[None]:
    """Hold the lock on the worktree list: against other threads and processes of Corral, not against the user's git."""
    import portalocker  # importing it takes 5 % of a daemon's start, and few daemons create a worktree

    # portalocker polls: of this process one thread at a time. The lock is held for milliseconds, except while a large
    # worktree is removed.
    lock = portalocker.Lock(
        repo.common_dir / "corral.worktrees",
        mode="a",
        timeout=_LOCK_WAIT_S,
        check_interval=0.005,
        fail_when_locked=False,
    )
    with _turn(repo.common_dir), lock:
        yield


@lru_cache(maxsize=64)
def _turn(common_dir: Path) -> Lock:
    """Held by the thread of this process that has the lock on a list, or waits for it."""
    return Lock()


# -- The two files by which a linked worktree and its repository name each other, repaired after a move.
#
# The folder's ``.git`` names its entry in the repository, the entry's ``gitdir`` names the folder. ``git worktree
# repair`` would write into every folder that an entry names, even if another repository's worktree is there now.


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
        files.replace(entry / "gitdir", os.fsencode(f"{path / '.git'}\n"))
        if named:
            files.replace(path / ".git", os.fsencode(f"gitdir: {entry}\n"))
    return True


def move(repo: Git, path: Path, to: Path) -> None:
    """Rename a worktree's folder; its entry names it again afterwards. After a kill in the middle: :func:`reanchor`.

    The folder keeps its inode, which proves it; a process that works in it does not notice.

    Raises:
        Conflict: Something stands at ``to``.
        OSError: It could not be renamed.
    """
    if os.path.lexists(to):
        raise Conflict(f"{to} exists already.", cause="A worktree is to have this path.", remedy="Move it away.")
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
