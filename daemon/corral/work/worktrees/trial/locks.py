"""What decides the content of dependency folders: the tracked files that a recipe calls ``locks``."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from corral.git.process.command import Git
from corral.work.worktrees.recipes import Recipe


def tracked(checkout: Git, globs: Sequence[str], *words: str) -> list[str]:
    """Files in the index that match one of some globs, as ``ls-files`` prints them; none without a glob.

    Raises:
        GitFailed: Git could not list them.
    """
    if not globs:
        return []
    return checkout.check("ls-files", "-z", *words, "--", *(f":(glob){glob}" for glob in globs)).names


def key(checkout: Git, worktree: Path, recipe: Recipe, path: str) -> str:
    """Names what the recipe's own command makes of a checkout: the same key, the same folders.

    Args:
        checkout: Its index holds the commit.
        worktree: Where it stands: folders may hold that path.
        path: The ``PATH`` on which the recipe's programs are found.

    Raises:
        GitFailed: Git could not list the files.
    """
    locks = tracked(checkout, recipe.locks, "-s")
    machine = [platform.system(), platform.machine(), *(_program(name, path) for name in recipe.programs)]
    text = json.dumps([recipe.model_dump(mode="json"), locks, machine, str(worktree)])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def differing(checkout: Git, worktree: Path, main: Path, recipe: Recipe) -> list[str]:
    """Those of the candidate's locks that are not, byte for byte, what the person's checkout has there.

    Raises:
        GitFailed: Git could not list the files.
        OSError: One could not be read.
    """
    return [path for path in tracked(checkout, recipe.locks) if _bytes(worktree / path) != _bytes(main / path)]


def _program(name: str, path: str) -> list[object]:
    program = shutil.which(name, path=path)
    if program is None:
        return [name]
    info = Path(program).stat()
    return [os.path.realpath(program), info.st_size, info.st_mtime_ns]


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
