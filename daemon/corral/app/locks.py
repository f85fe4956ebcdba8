"""Lock keys as callers type them: read as keys of this project, by the file system's own rules."""

from __future__ import annotations

import os
from collections.abc import Sequence

from corral.app.runtime.services import Services
from corral.coordination.locks.keys import LockKey, parse_key, reach
from corral.errors import InvalidInput

MAX_KEYS = 1000
"""Paths in one call."""
MAX_ANYWHERE = 10
"""Globs in one call that may mean anything, anywhere."""
EXTEND_S = 1800.0
"""How much longer a renewed lock lasts where nothing else is said."""


def parse(services: Services, paths: Sequence[str]) -> list[LockKey]:
    """Read what a caller typed as keys of this project.

    Raises:
        InvalidInput: Too many, or one that is none.
    """
    if len(paths) > MAX_KEYS:
        raise InvalidInput(
            f"{len(paths)} paths in one call are too many.",
            cause=f"At most {MAX_KEYS} are taken at once.",
            remedy="Name a folder or a glob such as `src/**` that covers them.",
        )
    root = services.project.root
    exists, is_folder = (lambda name: os.path.lexists(root / name)), (lambda name: os.path.isdir(root / name))  # noqa: PTH112
    keys = [parse_key(path, fold=services.fold, exists=exists, is_folder=is_folder) for path in paths]
    if sum(not reach(key) for key in keys) > MAX_ANYWHERE:
        raise InvalidInput(
            "Too many globs that begin with a wildcard.",
            cause=f"Each is compared with every lock there is; {MAX_ANYWHERE} are taken at once.",
            remedy="Begin globs with a folder, such as `src/**/*.py`.",
        )
    return keys
