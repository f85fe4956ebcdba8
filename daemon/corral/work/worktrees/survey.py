"""Files of a main checkout that may be brought into a worktree: found by reading, without entering what is closed.

Closed are git's own folder, Corral's, and every nested checkout (a worktree inside the main one, a submodule): copying
worktrees into worktrees fills a disk.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from corral.work.worktrees.folders import NEVER, sorted_entries

_CLOSED = ".claude/worktrees"


def find_folders(main: Path, pattern: str, dependency_folders: frozenset[str]) -> list[str]:
    """Real folders that match a recipe's pattern, relative to ``main``.

    Args:
        pattern: A relative path; ``*`` stands for part of one visible name.
        dependency_folders: Names of folders that are not entered: what recipes bring as a whole.
    """
    folders = [""]
    parts = pattern.split("/")
    for part in parts[:-1]:
        folders = [
            path
            for path in _children(main, folders, part)
            if _may_enter(path, dependency_folders) and not os.path.lexists(f"{main}/{path}/.git")
        ]
    return list(_children(main, folders, parts[-1]))


def walk_files(main: Path, dependency_folders: frozenset[str], folder: str = "") -> Iterator[str]:
    """Every file and symlink below ``folder``, relative to ``main``, that is in no closed folder and in none of these names."""
    entries = list(sorted_entries(main / folder))
    if folder and any(entry.name == ".git" for entry in entries):
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir(follow_symlinks=False):
            if _may_enter(path, dependency_folders):
                yield from walk_files(main, dependency_folders, path)
        elif entry.is_symlink() or entry.is_file():
            yield path


def what_is_installed(folder: Path, watch: tuple[str, ...]) -> str:
    """A digest that changes when something is installed into or removed from a dependency folder.

    Args:
        folder: The dependency folder.
        watch: Globs inside it, ``.`` for itself: the folders whose listing says what is installed.
    """
    digest = hashlib.sha256()
    for pattern in watch:
        for listed in sorted(folder.glob(pattern)) if pattern != "." else [folder]:
            text = "".join(sorted(map(_said_by, sorted_entries(listed))))
            digest.update(text.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _said_by(entry: os.DirEntry[str]) -> str:
    if entry.is_file(follow_symlinks=False):
        # The lock files of package managers, and .pth files. A .gitignore in there says nothing about packages.
        return "" if entry.name == ".gitignore" else f"{entry.name} {entry.stat(follow_symlinks=False).st_mtime_ns}\n"
    # Not the times of folders: an import writes __pycache__ into them.
    return "" if entry.name.startswith((".", "__pycache__")) else f"{entry.name}\n"


def _children(main: Path, parents: list[str], part: str) -> Iterator[str]:
    """Real folders named ``part`` in each of the parents."""
    for parent in parents:
        if "*" in part:
            folders = [entry.name for entry in sorted_entries(main / parent) if entry.is_dir(follow_symlinks=False)]
            names = [name for name in folders if not name.startswith(".") and fnmatch(name, part)]
        else:
            place = main / parent / part
            names = [part] if place.is_dir() and not place.is_symlink() else []
        yield from (f"{parent}/{name}" if parent else name for name in names)


def _may_enter(path: str, dependency_folders: frozenset[str]) -> bool:
    name = path.rpartition("/")[2]
    return name not in NEVER and name not in dependency_folders and path != _CLOSED
