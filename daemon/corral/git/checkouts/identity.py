"""Prove that a folder is the very worktree that Corral created: by its identity, not its path.

Everything that writes to, moves, resets, cleans, commits in or removes a worktree calls this right before it does. The
proof: the path is no symbolic link and leads through none; the folder is the recorded one (device and inode); its
``.git`` file names an entry of this repository, and that entry names this folder. The branch of a proven folder is
checked in ``work/worktrees/removal.py``; a folder without a record must be on the recorded branch.
"""

from __future__ import annotations

import os
import shlex
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from corral.config.inodes import folder_id
from corral.config.links import make_own_folder, refuse_links
from corral.core.errors import Conflict, CorralError, NotAProject, PathReplaced
from corral.git import refs
from corral.git.checkouts.listing import folder_of
from corral.git.process.command import Git, open_checkout


@dataclass(frozen=True)
class OwnWorktree:
    """The record of a worktree.

    Attributes:
        path: Absolute.
        top: The project's root; no link may stand between it and ``path``. If ``path`` is not below it, a person named its
            parent, which may be reached through links.
        folder_id: The :func:`folder_id` at creation; None for a worktree from before that was recorded.
        branch: Short name; None: on no branch.
    """

    path: Path
    top: Path
    folder_id: str | None
    branch: str | None


def real_place(path: Path) -> Path:
    """The path with the links of its parents resolved, but not a link at the path itself."""
    return Path(os.path.realpath(path.parent)) / path.name


def is_same_place(one: Path, other: Path) -> bool:
    """Whether two paths are one :func:`real_place`; the same text always is, and no link need be looked for."""
    return one == other or (one.name == other.name and real_place(one) == real_place(other))


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one folder."""
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def make_folder(path: Path, top: Path) -> str:
    """Create the empty folder of a worktree, and return its :func:`folder_id`.

    Raises:
        Conflict: Something exists there, maybe another project's: it is not touched.
        PathReplaced: A parent folder is a symbolic link.
        OSError: It cannot be created.
    """
    if path.is_relative_to(top):
        make_own_folder(path.parent, top)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError as error:
        raise Conflict(
            f"{path} exists already.",
            cause=f"It is {describe(path)}.",
            remedy="Choose another name, or move it away.",
        ) from error
    return folder_id(path)


def prove(repo: Git, own: OwnWorktree) -> Git:
    """Prove that a whole worktree is Corral's; call it right before each effect.

    Returns:
        The checkout.

    Raises:
        PathReplaced: It is not Corral's, and must not be touched; or nothing exists there.
    """
    _check_folder(own)
    entry = _entry(repo, own.path)
    if entry is None or not (entry / "gitdir").is_file():
        raise _replaced(own.path)
    _check_entry(repo, own.path, entry)
    checkout = Git(entry, own.path)
    if own.folder_id is None and not _is_on(checkout, own.branch):
        raise _replaced(own.path)
    return checkout


def prove_remains(repo: Git, own: OwnWorktree) -> None:
    """Prove that the remains of a worktree are Corral's: half created, damaged, whole, or nothing at all.

    Raises:
        PathReplaced: Something else is there.
    """
    if not os.path.lexists(own.path):
        refuse_links(own.path, own.top)
        return
    _check_folder(own)
    if own.folder_id is None:
        if any(own.path.iterdir()):
            prove(repo, own)
        return
    entry = _entry(repo, own.path)
    if entry is not None and (entry / "gitdir").is_file():
        _check_entry(repo, own.path, entry)


def _is_on(checkout: Git, branch: str | None) -> bool:
    try:
        return checkout.branch() == (refs.branch_ref(branch) if branch else None)
    except NotAProject:  # its HEAD is gone
        return False


def prove_folder(own: OwnWorktree) -> None:
    """Prove only that the folder is the recorded one, whatever its ``.git`` names: enough to empty it, not to run git.

    Raises:
        PathReplaced: It is not, or none was recorded.
    """
    if own.folder_id is None:
        raise _replaced(own.path)
    _check_folder(own)


def describe(path: Path) -> str:
    """Describe the object at a path for a person: ``a symbolic link to …``, ``a worktree of …``."""
    if path.is_symlink():
        return f"a symbolic link to {os.readlink(path)}"  # noqa: PTH115 - as it is written
    if not path.exists():
        return "gone"
    if not path.is_dir():
        return "a file"
    if (path / ".git").is_dir():
        return "another repository"
    with suppress(CorralError, OSError):
        checkout = open_checkout(path)
        branch = (checkout.branch() or "").removeprefix("refs/heads/")
        return f"a worktree of {checkout.common_dir}{f' on branch {branch}' if branch else ''}"
    return "a folder of files" if any(path.iterdir()) else "an empty folder"


def _check_folder(own: OwnWorktree) -> None:
    if own.path.is_relative_to(own.top):
        refuse_links(own.path.parent, own.top)
    try:
        status = own.path.lstat()
    except OSError as error:
        raise _replaced(own.path) from error
    if not stat.S_ISDIR(status.st_mode):
        raise _replaced(own.path)
    # A remount can change the device number, but not the inode.
    if own.folder_id is not None and own.folder_id.rpartition(":")[2] != str(status.st_ino):
        raise _replaced(own.path)


def _entry(repo: Git, path: Path) -> Path | None:
    """The entry in the repository's ``worktrees/`` that the ``.git`` file names, even if missing; None without a file."""
    marker = path / ".git"
    try:
        if not stat.S_ISREG(marker.lstat().st_mode):
            raise _repointed(path)
        text = marker.read_text(errors="surrogateescape")
    except FileNotFoundError:
        return None
    entry = Path(os.path.normpath(path / text.removeprefix("gitdir: ").rstrip("\n")))
    is_listed = _is_same(entry.parent, repo.common_dir / "worktrees")
    if not text.startswith("gitdir: ") or not is_listed or entry.is_symlink():
        raise _repointed(path)
    return entry


def _check_entry(repo: Git, path: Path, entry: Path) -> None:
    """Check that the entry names this very folder, and belongs to this repository."""
    if not is_same_place(folder_of(entry), path) or not _is_same(Git(entry, path).common_dir, repo.common_dir):
        raise _repointed(path)


def _replaced(path: Path) -> PathReplaced:
    if not os.path.lexists(path):
        return PathReplaced(
            f"{path} is not the worktree that Corral made: it is gone.",
            remedy="Something deleted it, and nothing is left to move: run the task again, or allocate a new worktree.",
        )
    quoted = shlex.quote(str(path))
    return PathReplaced(
        f"{path} is not the worktree that Corral made: it is {describe(path)}.",
        remedy=f"Move it away: `mv {quoted} {quoted}.mine`, or a worktree with `git worktree move`; Corral then "
        "continues.",
    )


def _repointed(path: Path) -> PathReplaced:
    return PathReplaced(
        f"The .git file of {path} is not the one that Corral created: the folder is now {describe(path)}.",
        remedy="Run `git worktree repair` in the main checkout to restore it, or move the folder away.",
    )
