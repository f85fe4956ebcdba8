"""Rename a worktree's folder: by its row first, so that a kill at any point leaves a folder that a row names.

While it is renamed, the last part of a row's path differs from its name, and the folder stands at one of the two.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from corral.core.crash import crash_point
from corral.core.states import LIVE_WORKTREES
from corral.git.checkouts import pointers
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows

if TYPE_CHECKING:
    from corral.work.worktrees.allocation import WorktreeContext


def rename(context: WorktreeContext, row: WorktreeRow, to: Path) -> WorktreeRow:
    """Rename the folder of a worktree that is on its way into the pool or out of it; returns the row, which names it.

    Args:
        to: Beside the present folder. Its name, or that of the present one, is the row's.

    Raises:
        PathReplaced: It is not Corral's.
        Conflict: Something stands at ``to``.
        OSError: It could not be renamed.
    """
    path = Path(row["path"])
    if path.name == row["name"]:
        row = _at(context, row, to)
    crash_point("worktree.moving")
    ownership.prove(context, {**row, "path": str(path)})
    pointers.move(context.repo, path, to)
    crash_point("worktree.moved")
    return _at(context, row, to)


def settle(context: WorktreeContext, row: WorktreeRow) -> WorktreeRow:
    """Finish or undo a rename that was cut short: afterwards the row, the folder and git's entry name each other.

    Safe to repeat. Nothing is done where the folder is at neither place.
    """
    path = Path(row["path"])
    if path.name == row["name"] or row["folder_id"] is None:
        return row
    other = path.with_name(row["name"])
    for place, was_at in ((other, path), (path, other)):
        if _is_it(place, row["folder_id"]):
            pointers.reanchor(context.repo, place, was_at=was_at, old_common_dir=context.repo.common_dir)
            return row if place == path else _at(context, row, place)
    return row


def _is_it(place: Path, known: str) -> bool:
    try:
        return str(os.lstat(place).st_ino) == known.rpartition(":")[2]
    except OSError:
        return False


def _at(context: WorktreeContext, row: WorktreeRow, place: Path) -> WorktreeRow:
    values = {"path": str(place)}
    moved = context.db.write(lambda conn: worktree_rows.transition(conn, row["worktree_id"], LIVE_WORKTREES, values))
    return moved or {**row, "path": str(place)}
