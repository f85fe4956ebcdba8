"""The verification worktree: ours alone, detached, and warm: what git ignores stays from one run to the next."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from corral.errors import CorralError, Unsupported
from corral.git import worktrees
from corral.git.command import Git, open_checkout

NAME = "verify-1"


def lay_out(repo: Git, path: Path, sha: str) -> Git:
    """Make the worktree hold exactly the files of a commit, beside those git ignores.

    A worktree that is damaged is made anew: nothing in it is anybody's work.

    Returns:
        The checkout, detached at ``sha``.

    Raises:
        GitFailed: It could not even be made anew.
        OSError: What is there could not be removed.
    """
    try:
        if worktrees.repair(repo, path, None):
            return _point(repo, path, sha)
    except CorralError:
        _discard(path)
        worktrees.repair(repo, path, None)
    worktrees.add_detached(repo, path, sha)
    return _point(repo, path, sha)


def _point(repo: Git, path: Path, sha: str) -> Git:
    checkout = open_checkout(path)
    if not _is_ours(repo, path, checkout):
        raise Unsupported(f"{path} is not the verification worktree any more.")
    # A verification that was killed may have left git's lock here; nobody else works in this worktree.
    (checkout.git_dir / "index.lock").unlink(missing_ok=True)
    checkout.must("update-ref", "--no-deref", "HEAD", sha)
    checkout.must("read-tree", "--reset", "-u", sha)
    checkout.must("clean", "-ffdq")
    return checkout


def _is_ours(repo: Git, path: Path, checkout: Git) -> bool:
    """What ran here could have made ``.git`` point to somebody's checkout: only our own entry may be written to."""
    entry = checkout.git_dir.resolve()
    if entry.parent != (repo.common_dir / "worktrees").resolve():
        return False
    try:
        return Path((entry / "gitdir").read_text().strip()).resolve() == (path / ".git").resolve()
    except OSError:
        return False


def _discard(path: Path) -> None:
    if path.name != NAME:
        raise ValueError(f"{path} is not a verification worktree")
    if path.exists():
        make_writable(path)
        shutil.rmtree(path)


def make_writable(path: Path) -> None:
    """Give ourselves every folder in the worktree: a module cache, say, is left read-only, and could never be removed.

    Raises:
        OSError: One is not ours to give.
    """
    path.chmod(path.stat().st_mode | stat.S_IRWXU)
    for parent, folders, _files in os.walk(path):
        for folder in folders:
            found = os.lstat(os.path.join(parent, folder)).st_mode  # noqa: PTH118 - there are many
            if stat.S_ISDIR(found) and found & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(os.path.join(parent, folder), stat.S_IMODE(found) | stat.S_IRWXU)  # noqa: PTH101, PTH118
