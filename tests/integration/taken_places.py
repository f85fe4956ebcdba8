"""What may come to stand in the place of a worktree of Corral's, and a proof that it was not touched."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.conftest import commit, git

Take = Callable[[Path, Path], Path]
"""Given the repository and the worktree's folder: put something in its place, and return what must stay as it is."""


def users_worktree(root: Path) -> Path:
    """A linked worktree of the user's, on a branch of their own, with staged, unstaged and untracked work."""
    own = root.parent / f"{root.name}-users"
    git(root, "worktree", "add", "-q", "-b", "users-branch", str(own))
    commit(own, {"theirs.txt": "committed\n"})
    (own / "src" / "a.py").write_text("unsaved\n")
    (own / "staged.txt").write_text("staged\n")
    git(own, "add", "staged.txt")
    (own / "untracked.txt").write_text("untracked\n")
    return own


def link(root: Path, place: Path) -> Path:
    """A symbolic link to the user's worktree."""
    own = users_worktree(root)
    place.rename(root.parent / "moved-away")
    place.symlink_to(own)
    return own


def moved_worktree(root: Path, place: Path) -> Path:
    """The user's own worktree, moved there by git."""
    own = users_worktree(root)
    git(root, "worktree", "move", str(place), str(root.parent / "moved-away"))
    git(root, "worktree", "move", str(own), str(place))
    return place


def another_repository(root: Path, place: Path) -> Path:
    """A repository of its own."""
    place.rename(root.parent / "moved-away")
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    commit(place, {"its-own.txt": "x\n"})
    (place / "untracked.txt").write_text("untracked\n")
    return place


def copy(root: Path, place: Path) -> Path:
    """A copy of the folder: its ``.git`` names the right entry, and yet it is another folder."""
    place.rename(root.parent / "moved-away")
    shutil.copytree(root.parent / "moved-away", place, symlinks=True)
    (place / "untracked.txt").write_text("untracked\n")
    return place


def git_file_of_main(root: Path, place: Path) -> Path:
    """The same folder, whose ``.git`` names the main checkout."""
    (root / "src" / "a.py").write_text("unsaved\n")
    (place / ".git").write_text(f"gitdir: {root / '.git'}\n")
    return root


def git_file_of_users(root: Path, place: Path) -> Path:
    """The same folder, whose ``.git`` names the user's worktree."""
    own = users_worktree(root)
    (place / ".git").write_text((own / ".git").read_text())
    return own


ALL: tuple[Take, ...] = (link, moved_worktree, another_repository, copy, git_file_of_main, git_file_of_users)


def state(checkout: Path) -> tuple[object, ...]:
    """Everything of a checkout that must stay: HEAD, index, status, and every file."""
    head = git(checkout, "rev-parse", "HEAD"), git(checkout, "rev-parse", "--symbolic-full-name", "HEAD")
    shown = git(checkout, "status", "--porcelain", "--untracked-files=all"), git(checkout, "ls-files", "--stage")
    files = {
        str(path.relative_to(checkout)): path.read_bytes()
        for path in sorted(checkout.rglob("*"))
        if path.is_file() and not {".git", ".corral"} & set(path.relative_to(checkout).parts)
    }
    return head, shown, files
