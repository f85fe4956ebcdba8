"""Into the pool: a worktree whose attempt ended well is emptied of everything but its commit, renamed and sealed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.core.crash import crash_point
from corral.core.errors import CorralError
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.states import WorktreePurpose, WorktreeState
from corral.git import refs
from corral.git.checkouts import repointing, status, worktrees
from corral.runners.tags import PROJECT_MARK, TASK_MARK
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.ownership import rename
from corral.work.worktrees.pool import contents
from corral.work.worktrees.pool.state import (
    MEBI,
    SEAL,
    Doubt,
    bounds,
    is_short_of_space,
    kind_of,
    look_of_index,
    refuse_extras,
    refuse_if_inhabited,
)

if TYPE_CHECKING:
    from corral.work.worktrees.allocation import WorktreeContext


def keep(context: WorktreeContext, row: WorktreeRow) -> bool:
    """Keep a worktree that is ``reclaiming`` and whose attempt ended well.

    Returns:
        Whether it is kept; its row is ``removed`` then, and a row of the pool has its folder. Else it is to be removed.
    """
    try:
        _refuse_if_unfit(context, row)
        _put_away(context, row)
    except (Doubt, CorralError, OSError) as reason:
        context.pool.count(context.pool.not_kept, kind_of(reason))
        return False
    context.pool.count_kept()
    return True


def _refuse_if_unfit(context: WorktreeContext, row: WorktreeRow) -> None:
    most, path = bounds(context)[0], Path(row["path"])
    if not most:
        raise Doubt("worktrees.pool_size is 0")
    if row["purpose"] != WorktreePurpose.TASK or row["folder_id"] is None or row["task_id"] is None:
        raise Doubt("it was not made for a task")
    if repointing.count_entries(ownership.prove(context, row)) < context.settings().worktrees.pool_min_files:
        raise Doubt("it has fewer files than worktrees.pool_min_files")
    if is_short_of_space(path):
        raise Doubt("the disk is nearly full")
    refuse_if_inhabited(context, path, {PROJECT_MARK: context.project_id, TASK_MARK: row["task_id"]})
    checkout = ownership.prove(context, row)
    refuse_extras(checkout)
    if repointing.is_partial(context.repo):
        raise Doubt("worktrees of this repository have settings of their own")
    if repointing.index_of(checkout)[1]:
        raise Doubt("its index holds submodules, or marks that hide files from git")
    excluded = tuple(f"{folder}/" for folder in row["provision"].get("exclude", ()))
    if any(not f"{change.path}/".startswith(excluded) for change in status.changes(checkout)):
        raise Doubt("it holds work that is not on its branch")
    head = checkout.head()
    with context.db.reading() as conn:
        is_submitted = worktree_rows.is_submitted(conn, row)
    if head is None or (head != row["base_sha"] and not (is_submitted and refs.holder(context.repo, head))):
        raise Doubt("it holds commits that were not submitted")


def _put_away(context: WorktreeContext, row: WorktreeRow) -> None:
    prove, base = partial(ownership.prove, context, row), row["base_sha"]
    worktrees.begin_filling(prove())
    crash_point("pool.begun")
    repointing.lay_out(prove, base)
    tracked = repointing.index_of(prove())[0]
    size = _cleaned(context, row, tracked)
    repointing.refresh(prove)
    crash_point("pool.cleaned")
    old = Path(row["path"])
    name = f"pool-{new_id().replace('-', '')[-12:]}"
    row = rename(context, row, old.with_name(name))
    checkout = ownership.prove(context, row)
    look = contents.seal(Path(row["path"]), sorted(contents.folders_of(tracked)), ())
    (checkout.git_dir / SEAL).write_text(json.dumps({"look": look, "index": look_of_index(checkout)}))
    worktrees.end_filling(checkout)
    crash_point("pool.sealed")
    provision = {"size_bytes": size, "conversion": repointing.conversion(context.repo)}
    context.db.write(lambda conn: _stored(conn, context, row, str(old), name, provision))
    crash_point("pool.kept")
    if row["branch"] and not context.db.read(lambda conn: worktree_rows.is_submitted(conn, row)):
        worktrees.drop_branch(context.repo, refs.branch_ref(row["branch"]))


def _cleaned(context: WorktreeContext, row: WorktreeRow, tracked: dict[str, str]) -> int:
    """Remove everything that is no file of the commit, and correct modes; returns what the rest takes on the disk, bytes."""
    checkout, path = ownership.prove(context, row), Path(row["path"])
    surveyed = contents.survey(path, tracked, (), contents.spare_bits(checkout.git_dir))
    if surveyed.doubts:
        raise Doubt(surveyed.doubts[0])
    if surveyed.size_bytes > bounds(context)[1] * MEBI:
        raise Doubt("it takes more than worktrees.pool_disk_mb")
    ownership.prove(context, row)
    contents.remove(path, surveyed.leftovers)
    for name, mode in surveyed.modes.items():
        (path / name).chmod(mode)
    return surveyed.size_bytes


def _stored(
    conn: Connection, context: WorktreeContext, row: WorktreeRow, old: str, name: str, provision: Payload
) -> None:
    now = iso(context.clock())
    gone = {"state": WorktreeState.REMOVED, "removed_at": now, "note": None, "path": old}
    if worktree_rows.transition(conn, row["worktree_id"], (WorktreeState.RECLAIMING,), gone) is None:
        raise Doubt("it is gone")
    pooled = {"worktree_id": new_id(), "name": name, "path": row["path"], "branch": None, "base_sha": row["base_sha"],
            "purpose": WorktreePurpose.TASK, "state": WorktreeState.POOLED, "provision": provision,
            "folder_id": row["folder_id"], "created_at": now}  # fmt: skip
    worktree_rows.create(conn, pooled)
