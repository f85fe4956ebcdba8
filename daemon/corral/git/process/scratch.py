"""Temporary folders of git operations: all in one place inside the git directory, which only this repository's daemon uses.

A folder is removed at the end of its operation. What a killed daemon left is removed by the next one, which alone has the
daemon's lock: in that place there is nothing of anybody else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from corral.git.process.command import Git

NAME = "corral-tmp"


@contextlib.contextmanager
def folder(repo: Git) -> Iterator[Path]:
    """An empty folder, gone at the end.

    Raises:
        OSError: It cannot be made.
    """
    place = repo.common_dir / NAME
    place.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as made:
        yield Path(made)


def sweep(repo: Git) -> int:
    """Remove what a killed daemon left. Call it with the daemon's lock, before any operation.

    Returns:
        How many folders there were; 0 also where the place is a link or another user's, which is left alone.
    """
    place = repo.common_dir / NAME
    try:
        found = place.lstat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return 0
    left = list(place.iterdir())
    for item in left:
        shutil.rmtree(item, ignore_errors=True)
    return len(left)
