"""The rows of worktrees and what stands at their paths: a folder is made with its record, and proven before it is touched.

A worktree that fails the proof stays as it is. Its row says what stands there instead and what to type, until it is so no more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.inodes import folder_id
from corral.core.crash import crash_point
from corral.core.errors import CorralError, PathReplaced
from corral.core.instants import iso
from corral.core.states import LIVE_WORKTREES, WorktreePurpose, WorktreeState
from corral.git.checkouts import identity as worktree_identity
from corral.git.checkouts import listing, worktrees
from corral.git.checkouts.identity import OwnWorktree
from corral.git.process.command import Git
from corral.store.rows import Columns
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import store as worktree_rows

if TYPE_CHECKING:
    from corral.work.worktrees.allocation import WorktreeContext


def make_folder(context: WorktreeContext, row: WorktreeRow) -> WorktreeRow:
    """Make the empty folder of a worktree that is ``allocating`` and record which folder it is; returns the row.

    Raises:
        Conflict: Something stands there; the row is ``removed``.
        PathReplaced: The way there leads through a symbolic link; the row is ``removed``.
        OSError: It cannot be made; the row is ``removed``.
    """
    try:
        folder_id = _make(context, Path(row["path"]))
    except (CorralError, OSError):
        _forget(context, row)
        raise
    crash_point("worktree.folder_made")
    return _record(context, row, folder_id)


def make_folder_again(context: WorktreeContext, row: WorktreeRow) -> WorktreeRow:
    """Make the folder again after git failed to make a worktree of it and removed it. If this fails, the row stays.

    Raises:
        Conflict: Something stands there meanwhile.
        OSError: It cannot be made.
    """
    row = _record(context, row, None)  # killed from here on, an empty folder of unknown number may be found
    return _record(context, row, _make(context, Path(row["path"])))


def forget_folder(context: WorktreeContext, row: WorktreeRow) -> None:
    """Take an empty folder that :func:`make_folder` made away again; its row is ``removed``."""
    path = Path(row["path"])
    prove_remains(context, row)
    path.rmdir()
    _forget(context, row)


def prove(context: WorktreeContext, row: WorktreeRow) -> Git:
    """The checkout of a whole worktree, if it is provably Corral's; call it right before each effect.

    Raises:
        PathReplaced: It is not.
    """
    checkout = worktree_identity.prove(context.repo, _recorded(context, row))
    if row["folder_id"] is None:  # made before that was recorded
        _record(context, row, folder_id(Path(row["path"])))
    return checkout


def prove_remains(context: WorktreeContext, row: WorktreeRow) -> None:
    """Prove that a worktree is Corral's although it may be half made, damaged or gone.

    Raises:
        PathReplaced: Something else stands there.
    """
    own = _recorded(context, row)
    if row["purpose"] == WorktreePurpose.VERIFY and own.folder_id is not None and os.path.lexists(own.path):
        worktree_identity.prove_folder(own)  # what ran there may have replaced its .git file, which is not followed
    else:
        worktree_identity.prove_remains(context.repo, own)


def discard(context: WorktreeContext, row: WorktreeRow) -> None:
    """Remove a worktree that holds nobody's work, with all that is in it.

    Raises:
        PathReplaced: Something else stands there.
        OSError: One of its files could not be removed.
    """
    worktrees.discard(context.repo, _recorded(context, row))


def check_ready(context: WorktreeContext, row: WorktreeRow) -> bool:
    """Look at a worktree in use: note on its row what stands in its place; take the note away once that is over.

    Returns:
        Whether it is Corral's, or gone.
    """
    try:
        prove_remains(context, row)
    except PathReplaced as error:
        note(context, row, error)
        return False
    if row["note"] is not None:
        move(context, row, {"note": None}, (WorktreeState.READY,))
    return True


def note(context: WorktreeContext, row: WorktreeRow, error: CorralError | OSError) -> None:
    """Say on a row why its worktree stays, and in a second line what to type; its state stays too."""
    if isinstance(error, CorralError):
        cause = "" if error.cause == error.default_cause else f" {error.cause}"
        text = f"{error.message}{cause}\n{error.remedy}"
    else:
        text = str(error)
    move(context, row, {"note": text})


def move(
    context: WorktreeContext, row: WorktreeRow, values: Columns, from_states: Sequence[str] = LIVE_WORKTREES
) -> WorktreeRow | None:
    """The guarded update of a worktree's row, in a transaction of its own; None if it is in none of these states."""
    return context.db.write(worktree_rows.transition, row["worktree_id"], from_states, values)


def _recorded(context: WorktreeContext, row: WorktreeRow) -> OwnWorktree:
    path = Path(row["path"])
    return OwnWorktree(path, context.places.top_of(path), row["folder_id"], row["branch"])


def _make(context: WorktreeContext, path: Path) -> str:
    return worktree_identity.make_folder(path, context.places.establish(path))


def _record(context: WorktreeContext, row: WorktreeRow, folder_id: str | None) -> WorktreeRow:
    return move(context, row, {"folder_id": folder_id}) or {**row, "folder_id": folder_id}


def _forget(context: WorktreeContext, row: WorktreeRow) -> None:
    gone = {"state": WorktreeState.REMOVED, "removed_at": iso(context.clock())}
    move(context, row, gone, (WorktreeState.ALLOCATING,))


# -- Rename a worktree's folder: by its row first, so that a kill at any point leaves a folder that a row names.
#
# While it is renamed, the last part of a row's path differs from its name, and the folder stands at one of the two.


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
    prove(context, {**row, "path": str(path)})
    listing.move(context.repo, path, to)
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
            listing.reanchor(context.repo, place, was_at=was_at, old_common_dir=context.repo.common_dir)
            return row if place == path else _at(context, row, place)
    return row


def _is_it(place: Path, known: str) -> bool:
    try:
        return str(os.lstat(place).st_ino) == known.rpartition(":")[2]
    except OSError:
        return False


def _at(context: WorktreeContext, row: WorktreeRow, place: Path) -> WorktreeRow:
    return move(context, row, {"path": str(place)}) or {**row, "path": str(place)}


def left_worktrees(common_dir: Path, before: datetime) -> Iterator[tuple[Path, str]]:
    """The worktrees on a branch of Corral's of their own name that git lists since before an instant; each with its branch.

    What a daemon makes itself later has a row, which a reader may not see yet. In a copy of a repository git lists those of the
    original, which point there.
    """
    for entry in sorted((common_dir / "worktrees").glob("*/gitdir")):
        try:
            if entry.stat().st_mtime >= before.timestamp():
                continue
            folder, head = Path(entry.read_text().strip()).parent, entry.with_name("HEAD").read_text().strip()
            is_ours = entry.parent.samefile((folder / ".git").read_text().strip().removeprefix("gitdir: "))
        except (OSError, ValueError):  # being removed, or not git's
            continue
        if is_ours and head == f"ref: refs/heads/corral/{folder.name}":
            yield folder, head.removeprefix("ref: refs/heads/")
