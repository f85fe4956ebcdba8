"""Lock keys as callers type them: read as keys of this project, by the file system's own rules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from corral.config.paths import Project, find_checkout
from corral.coordination.locks import table as lock_table
from corral.coordination.locks.api import MAX_KEYS
from corral.coordination.locks.keys import LockKey, parse_key, reach
from corral.coordination.locks.table import LockRequest
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Speaker
from corral.core.errors import InvalidInput
from corral.core.payload import Payload
from corral.store.rows.sessions import LockRow

MAX_ANYWHERE = 10
"""Globs in one call that may mean anything, anywhere."""


def inside(project: Project, path: str) -> str:
    """A path relative to the worktree of this project that it lies in; as it is where it lies in none. Touches the disk."""
    if not path.startswith("/") or "\0" in path:
        return path
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a symlink out of the checkout
    checkout = find_checkout(absolute.parent)
    ours = checkout is not None and checkout.common_dir == project.common_dir
    return str(absolute.relative_to(checkout.top)) if ours and checkout else path


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
    within = f"{services.project.root}/"  # as text: to make a Path takes longer than to look at the disk
    exists, is_folder = (lambda name: os.path.lexists(within + name)), (lambda name: os.path.isdir(within + name))  # noqa: PTH112
    keys = [parse_key(path, fold=services.fold, exists=exists, is_folder=is_folder) for path in paths]
    if sum(not reach(key) for key in keys) > MAX_ANYWHERE:
        raise InvalidInput(
            "Too many globs that begin with a wildcard.",
            cause=f"Each is compared with every lock there is; {MAX_ANYWHERE} are taken at once.",
            remedy="Begin globs with a folder, such as `src/**/*.py`.",
        )
    return keys


def describe_locks(name: str, rows: Sequence[LockRow]) -> list[Payload]:
    """The locks of a session of this name, as answers show them."""
    return [lock_table.wire({**row, "agent_name": name}) for row in rows]


def reserve_each(conn: Connection, lock_request: LockRequest, me: Speaker, now: datetime) -> dict[str, list[Payload]]:
    """Reserve each of the keys that is free: ``{locks, conflicts}``."""
    taken, refused = lock_table.acquire_each(conn, lock_request, me.holder, now)
    return {
        "locks": describe_locks(me.name, taken),
        "conflicts": [row for conflicts in refused.values() for row in conflicts],
    }
