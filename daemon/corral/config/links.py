"""Refuse symbolic links in place of Corral's own folders: Corral would write somewhere else."""

from __future__ import annotations

import os
from pathlib import Path

from corral.config.paths import Project
from corral.core.errors import FolderLinked

CACHE = "cache"
"""The folder below ``.corral/`` for files that can be created again."""

OWN_FOLDERS = (CACHE, "logs", "run", "state")
"""The folders below ``.corral/`` that Corral writes to."""


def refuse_links(path: Path, top: Path) -> None:
    """Refuse a path if it, or a folder between it and ``top``, is a symbolic link.

    Args:
        path: Absolute; need not exist.
        top: Not checked itself. If ``path`` is not below it, only ``path`` is checked.

    Raises:
        FolderLinked: One is a link.
    """
    here = top if path.is_relative_to(top) else path.parent
    for part in path.relative_to(here).parts:
        here /= part
        if here.is_symlink():
            raise FolderLinked(
                f"{here} is a symbolic link to {os.readlink(here)}.",  # noqa: PTH115 - as it is written
                cause="Corral does not write through a link: its target may belong to somebody else.",
                remedy=f"Replace it with a folder: `rm {here} && mkdir {here}`. To keep worktrees elsewhere, set "
                "`worktrees.root`.",
            )


def make_own_folder(path: Path, top: Path) -> Path:
    """Create a folder (mode 0700) and its parents up to ``top``, and return it; none of them may be a link.

    Raises:
        FolderLinked: One is a symbolic link.
        OSError: It cannot be created.
    """
    refuse_links(path, top)
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    refuse_links(path, top)  # a link may have appeared meanwhile
    return path


def linked_folders(project: Project) -> list[FolderLinked]:
    """One error for each of Corral's own folders, including ``.corral``, that is a symbolic link."""
    errors = []
    for folder in (project.home, *(project.home / name for name in OWN_FOLDERS)):
        try:
            refuse_links(folder, folder.parent)
        except FolderLinked as error:
            errors.append(error)
    return errors
