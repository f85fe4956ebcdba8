"""Folders of Corral's own are real folders: a symbolic link in the place of one would have Corral write somewhere else."""

from __future__ import annotations

import os
from pathlib import Path

from corral.config.paths import Project
from corral.errors import FolderLinked

VERIFY = "verify"
"""The folder below ``.corral/`` that merges are verified in."""

OWN_FOLDERS = ("logs", "run", "state", VERIFY, "worktrees")
"""The folders below ``.corral/`` that Corral writes to."""


def refuse_links(path: Path, top: Path) -> None:
    """Insist that neither ``path`` nor a folder between it and ``top`` is a symbolic link.

    Args:
        path: Absolute; need not exist.
        top: Not looked at itself. Where ``path`` does not lie below it, ``path`` alone is looked at.

    Raises:
        FolderLinked: One is a link.
    """
    here = top if path.is_relative_to(top) else path.parent
    for part in path.relative_to(here).parts:
        here /= part
        if here.is_symlink():
            raise FolderLinked(
                f"{here} is a symbolic link to {os.readlink(here)}.",  # noqa: PTH115 - as it is written
                cause="Corral does not write through a link: what lies behind it may be somebody else's.",
                remedy=f"Put a folder in its place: `rm {here} && mkdir {here}`. "
                "Worktrees can lie elsewhere: set `worktrees.root`.",
            )


def make_own_folder(path: Path, top: Path) -> Path:
    """Make a folder (mode 0700) and those above it up to ``top``, and return it; none of them may be a link.

    Raises:
        FolderLinked: One is a symbolic link.
        OSError: It cannot be made.
    """
    refuse_links(path, top)
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    refuse_links(path, top)  # one may have been put there meanwhile
    return path


def linked_folders(project: Project) -> list[FolderLinked]:
    """An error for each of Corral's own folders, ``.corral`` among them, that is a symbolic link."""
    found = []
    for folder in (project.home, *(project.home / name for name in OWN_FOLDERS)):
        try:
            refuse_links(folder, folder.parent)
        except FolderLinked as error:
            found.append(error)
    return found
