"""Paths as agents write them: many name files of the project from the root of the file system."""

from __future__ import annotations

import os
from pathlib import Path

from corral.config.paths import Project, find_checkout


def inside(project: Project, path: str) -> str:
    """A path relative to the worktree of this project that it lies in; as it is where it lies in none. Touches the disk."""
    if not path.startswith("/") or "\0" in path:
        return path
    named = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a symlink out of the checkout
    checkout = find_checkout(named.parent)
    ours = checkout is not None and checkout.common_dir == project.common_dir
    return str(named.relative_to(checkout.top)) if ours and checkout else path
