"""What earlier runs left in a folder that is used again: build products and caches, which git ignores and a run may trust.

A verification must see the commit and nothing of its predecessors: CPython, for one, runs an old ``.pyc`` if the source has the
same size and the same second. What recipes bring (environments, ``node_modules``, ``target``) stays; those are made for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from corral.git.command import Git
from corral.work.recipes import Recipe


def remove(checkout: Git, top: Path, recipes: Iterable[Recipe]) -> None:
    """Remove every ignored file and folder that no recipe brings.

    Args:
        checkout: A worktree of Corral's own, never one that somebody works in.
        top: Its folder.
        recipes: Whose folders stay.

    Raises:
        GitFailed: Git could not list them.
        OSError: One could not be removed.
    """
    kept = {PurePosixPath(folder.path).name for recipe in recipes for folder in recipe.folders if folder.mode != "skip"}
    listed = checkout.check("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z").text
    for entry in filter(None, listed.split("\0")):
        if kept.isdisjoint(PurePosixPath(entry).parts):
            path = top / entry.rstrip("/")
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
