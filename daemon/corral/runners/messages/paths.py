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

    def resolve(self, given: str) -> Path:
        """The path behind every link.

        Raises:
            ToolError: It is none, or outside of the worktree.
        """
        if not given or "\0" in given or len(given) > MAX_PATH:
            raise ToolError("The path is empty, too long, or contains a NUL.")
        try:
            resolved = (self.root / given).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
            raise ToolError(f"{given}: {error}") from error
        if resolved != self.root and self.root not in resolved.parents:
            raise ToolError(f"{given} is outside of the working directory {self.root}.")
        return resolved

    def readable(self, given: str) -> Path:
        """A regular file; raises ToolError if it is none."""
        path = self.resolve(given)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise ToolError(f"{given}: {error.strerror}") from error
        if not stat.S_ISREG(mode):
            raise ToolError(f"{given} is a folder; use list_files." if stat.S_ISDIR(mode) else f"{given} is no file.")
        return path

    def writable(self, given: str) -> Path:
        """A regular file, or where one can be made; not Git's own. Raises ToolError if it is neither."""
        path = self.resolve(given)
        parts = (*Path(os.path.normpath(given)).parts, *path.relative_to(self.root).parts)
        if any(part.casefold() == ".git" for part in parts):
            raise ToolError(f"{given} belongs to Git; use run_command with git.")
        if path.exists() and not path.is_file():
            raise ToolError(f"{given} is no regular file.")
        return path

    def shown(self, path: Path) -> str:
        """A path as the model gets it: relative to the worktree."""
        return path.relative_to(self.root).as_posix()
