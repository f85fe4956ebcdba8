"""Paths that a model names: inside of its worktree, and nowhere else.

This keeps a model from mistakes. Its commands are not confined: they may do what any worker's command may.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_PATH = 4096


class ToolError(Exception):
    """A tool could not do what it was asked; the model is told why."""


class Confined:
    """The files of a worktree.

    Args:
        root: The worktree.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def resolve(self, name: str) -> Path:
        """The path behind every link.

        Raises:
            ToolError: It is none, or outside of the worktree.
        """
        if not name or "\0" in name or len(name) > MAX_PATH:
            raise ToolError("The path is empty, too long, or contains a NUL.")
        try:
            resolved = (self.root / name).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
            raise ToolError(f"{name}: {error}") from error
        if resolved != self.root and self.root not in resolved.parents:
            raise ToolError(f"{name} is outside of the working directory {self.root}.")
        return resolved

    def readable(self, name: str) -> Path:
        """A regular file; raises ToolError if it is none."""
        path = self.resolve(name)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from error
        if not stat.S_ISREG(mode):
            raise ToolError(f"{name} is a folder; use list_files." if stat.S_ISDIR(mode) else f"{name} is no file.")
        return path

    def writable(self, name: str) -> Path:
        """A regular file, or where one can be made; not Git's own. Raises ToolError if it is neither."""
        path = self.resolve(name)
        parts = (*Path(os.path.normpath(name)).parts, *path.relative_to(self.root).parts)
        if any(part.casefold() == ".git" for part in parts):
            raise ToolError(f"{name} belongs to Git; use run_command with git.")
        if path.exists() and not path.is_file():
            raise ToolError(f"{name} is no regular file.")
        return path

    def shown(self, path: Path) -> str:
        """A path as the model gets it: relative to the worktree."""
        return path.relative_to(self.root).as_posix()
