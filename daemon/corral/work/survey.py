"""What of a main checkout may be brought into a worktree: found by reading, without entering what is closed.

Closed are git's own folder, Corral's, and every nested checkout (a worktree inside the main one, a submodule): copying
worktrees into worktrees fills a disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from corral.work.folders import NEVER

_CLOSED = ".claude/worktrees"


def find_folders(main: Path, pattern: str, left: frozenset[str]) -> list[str]:
    """Real folders that match a recipe's pattern, relative to ``main``.

    Args:
        main: The main checkout.
        pattern: A relative path; ``*`` stands for part of one visible name.
        left: Names of folders that are not entered: what recipes bring as a whole.
    """
    found = [""]
    parts = pattern.split("/")
    for part in parts[:-1]:
        found = [path for path in _children(main, found, part) if not _stays_out(main, path, left)]
    return list(_children(main, found, parts[-1]))


def walk_files(main: Path, left: frozenset[str], folder: str = "") -> Iterator[str]:
    """Every file and symlink below ``folder``, relative to ``main``, but what is closed or in a folder named in ``left``."""
    with os.scandir(main / folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if not _stays_out(main, path, left):
                    yield from walk_files(main, left, path)
            elif entry.is_symlink() or entry.is_file():
                yield path


def _children(main: Path, parents: list[str], part: str) -> Iterator[str]:
    for parent in parents:
        for name in _names(main / parent, part):
            path = f"{parent}/{name}" if parent else name
            if (main / path).is_dir() and not (main / path).is_symlink():
                yield path


def _names(folder: Path, part: str) -> list[str]:
    if "*" not in part:
        return [part]
    visible = (child.name for child in folder.iterdir() if not child.name.startswith("."))
    return sorted(name for name in visible if fnmatch(name, part))


def _stays_out(main: Path, path: str, left: frozenset[str]) -> bool:
    name = PurePosixPath(path).name
    return name in NEVER or name in left or path == _CLOSED or os.path.lexists(main / path / ".git")
