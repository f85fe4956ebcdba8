"""Temporary folders of git operations, in one folder inside the git directory that only the daemon uses.

A folder is removed at the end of its operation. The next daemon, which holds the daemon's lock, removes those of a
killed one: nobody else uses that folder.
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
    """A temporary empty folder.

    Raises:
        OSError: It cannot be created.
    """
    place = repo.common_dir / NAME
    place.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as path:
        yield Path(path)


def sweep(repo: Git) -> int:
    """Remove the folders of a killed daemon. Call it with the daemon's lock, before any operation.

    Returns:
        Their number; 0 also if the parent is a link or another user's, which is left alone.
    """
    place = repo.common_dir / NAME
    try:
        status = place.lstat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return 0
    folders = list(place.iterdir())
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    return len(folders)
