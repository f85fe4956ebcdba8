"""Save the state of a worktree that somebody works in: tracked and new files as salvage, ignored ones privately."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from corral.core.logs import logger
from corral.core.states import WorktreePurpose
from corral.core.visible import embedded
from corral.git.checkouts import ignored, private, status
from corral.git.checkouts.private import Copy, Known
from corral.git.process.command import Git
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees.provision import allowed
from corral.work.worktrees.recipes import matching

if TYPE_CHECKING:
    from corral.work.worktrees.allocation import WorktreeContext

GUARDED = (WorktreePurpose.SESSION, WorktreePurpose.PERSON)
"""Corral's worktrees whose ignored files are saved: what a task makes is what it commits."""

_NAMED = 10

log = logger("guardian")


@dataclass(frozen=True)
class Look:
    """How a worktree looks: what git sees, and the ignored files."""

    seen: status.Seen
    ignored: ignored.Ignored


def look(context: WorktreeContext, checkout: Git, row: WorktreeRow | None) -> Look:
    """Look at a worktree: one git process, and the listings of ignored folders.

    Args:
        row: Its row, where Corral made it.
    """
    top, settings = checkout.work_tree, context.settings()
    assert top is not None
    seen, listed = status.look_at_all(checkout)
    if settings.salvage.ignored_mb == 0:
        return Look(seen, ignored.Ignored())
    recipes = matching(allowed(context.recipes, settings.worktrees.recipes), top) if listed else []
    rebuilt = {PurePosixPath(folder.path).name for recipe in recipes for folder in recipe.folders}
    brought = row["provision"].get("owned", ()) if row is not None else ()
    return Look(seen, ignored.survey(top, listed, rebuilt, brought, settings.salvage.ignored_mb * 1_000_000))


def identity(checkout: Git | None) -> str | None:
    """Which worktree stands at a path: by a file of git's folder for it that is written once, when it is made."""
    with suppress(OSError):
        if checkout is not None:
            info = (checkout.git_dir / "commondir").stat()
            return f"{info.st_ino} {info.st_mtime_ns}"
    return None


def keep_ignored(
    context: WorktreeContext, checkout: Git, name: str, look: Look, reason: str, known: Known | None = None
) -> Copy | None:
    """Store the ignored files of a worktree; None if it has none.

    Raises:
        CorralError: They could not be stored.
        OSError: The same.
    """
    copy = private.save(
        context.repo, checkout.top, name, context.clock(), look.ignored, reason=reason, head=look.seen.head,
        known=known or {}, identity=identity(checkout),
    )  # fmt: skip
    if copy is not None and copy.left_out:
        log.warning("ignored_files_left_out", worktree=str(checkout.work_tree), paths=_shown(copy.left_out))
    return copy


def keep_before_removal(context: WorktreeContext, checkout: Git, row: WorktreeRow, reason: str) -> str | None:
    """Store the ignored files of a worktree that Corral is about to remove, if somebody worked in it.

    Returns:
        A line that names those which go with it; None: there are none.

    Raises:
        CorralError: They could not be stored; then it must stay.
        OSError: The same.
    """
    if row["purpose"] not in GUARDED:
        return None
    copy = keep_ignored(context, checkout, row["name"], look(context, checkout, row), reason)
    return not_saved(copy.left_out) if copy is not None else None


def not_saved(left_out: Mapping[str, str]) -> str | None:
    """A line that names the ignored files that were not saved, and why; None: all were."""
    named = [f"{embedded(path)} ({why})" for path, why in list(left_out.items())[:_NAMED]]
    more = [f"and {len(left_out) - _NAMED} more"] if len(left_out) > _NAMED else []
    return f"Files that git ignores, and that are not saved: {', '.join(named + more)}." if named else None


def name_of(top: Path, row: WorktreeRow | None) -> str:
    """The name under which the state of a worktree is saved."""
    if row is not None:
        return row["name"]
    plain = re.sub(r"\.\.+|[^A-Za-z0-9._-]", "-", os.fspath(top.name)).strip(".-_")[:60].removesuffix(".lock")
    return plain or "worktree"


def _shown(left_out: Mapping[str, str]) -> list[str]:
    return [f"{path}: {why}" for path, why in list(left_out.items())[:20]]
