"""Into the pool: a worktree whose attempt ended well is emptied of everything but its commit, renamed and sealed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.core.crash import crash_point
from corral.core.errors import Conflict, CorralError
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.states import WorktreePurpose, WorktreeState
from corral.git import refs
from corral.git.checkouts import repointing, status, worktrees
from corral.git.process.command import Git
from corral.runners.tags import PROJECT_MARK, TASK_MARK
from corral.store.rows import required
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import folders, ownership
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
    from corral.work.worktrees.allocation import Plan, WorktreeContext


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
    look = contents.seal(Path(row["path"]), sorted(contents.folders_of(tracked)))
    (checkout.git_dir / SEAL).write_text(json.dumps({"look": look, "index": look_of_index(checkout)}))
    worktrees.end_filling(checkout)
    crash_point("pool.sealed")
    provision = {"size_bytes": size, "conversion": repointing.conversion(context.repo)}
    context.db.write(_stored, context, row, str(old), name, provision)
    crash_point("pool.kept")
    if row["branch"] and not context.db.read(worktree_rows.is_submitted, row):
        worktrees.drop_branch(context.repo, refs.branch_ref(row["branch"]))


def _cleaned(context: WorktreeContext, row: WorktreeRow, tracked: dict[str, str]) -> int:
    """Remove everything that is no file of the commit, and correct modes; returns what the rest takes on the disk, bytes."""
    checkout, path = ownership.prove(context, row), Path(row["path"])
    surveyed = contents.survey(path, tracked, contents.spare_bits(checkout.git_dir))
    if surveyed.doubts:
        raise Doubt(surveyed.doubts[0])
    if surveyed.size_bytes > bounds(context)[1] * MEBI:
        raise Doubt("it takes more than worktrees.pool_disk_mb")
    ownership.prove(context, row)
    for leftover in surveyed.leftovers:
        folders.remove(path / leftover)
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


# -- Out of the pool: a kept worktree that nobody has touched becomes the worktree of the next task, on another commit


def take(
    context: WorktreeContext,
    plan: Plan,
    intend: Callable[[WorktreeRow], WorktreeRow | None],
    give_up: Callable[[WorktreeRow, str], bool],
) -> WorktreeRow | None:
    """Turn a kept worktree into the worktree of a plan.

    Args:
        intend: Stores the new row with the folder of a kept worktree, and ends the row of that; None: it is gone.
        give_up: Removes a worktree, salvaging what only it holds.

    Returns:
        Its row, ``allocating``: on its branch, at its place. None: no kept one fits, a fresh one is to be made.
    """
    if plan.branch is None:
        return None
    candidates = _candidates(context, plan.base_sha)
    if not bounds(context)[0] or not candidates:
        if bounds(context)[0]:
            context.pool.count(context.pool.not_used, "none was kept")
        return None
    if os.path.lexists(context.root / plan.name) or refs.read(context.repo, refs.branch_ref(plan.branch)) is not None:
        return None  # making a fresh one says so
    for pooled in candidates:
        if not context.pool.claim(pooled["worktree_id"]):
            continue
        try:
            row = _use(context, pooled, plan, intend, give_up)
        finally:
            context.pool.let_go(pooled["worktree_id"])
        if row is not None:
            context.pool.count_used()
            return row
    return None


def _candidates(context: WorktreeContext, base_sha: str) -> list[WorktreeRow]:
    """Those that are kept: of the wanted base first, then the newest."""
    with context.db.reading() as conn:
        rows = worktree_rows.listing(conn, states=(WorktreeState.POOLED,))
    rows.reverse()
    return sorted(rows, key=lambda row: row["base_sha"] != base_sha)


def _use(
    context: WorktreeContext,
    pooled: WorktreeRow,
    plan: Plan,
    intend: Callable[[WorktreeRow], WorktreeRow | None],
    give_up: Callable[[WorktreeRow, str], bool],
) -> WorktreeRow | None:
    try:
        if (passed_over := _does_not_suit(context, pooled, plan.base_sha)) is not None:
            context.pool.doubts[pooled["worktree_id"]] = passed_over
            context.pool.count(context.pool.not_used, passed_over)
            return None
        _refuse_if_changed(context, pooled)
    except (Doubt, CorralError, OSError) as reason:
        context.pool.count(context.pool.not_used, kind_of(reason))
        give_up(pooled, f"it was kept for the next task, but {kind_of(reason)}")
        return None
    row = intend(pooled)
    if row is None:
        return None
    crash_point("pool.taken")
    try:
        return _repointed(context, pooled, row)
    except (Doubt, CorralError, OSError) as reason:
        context.pool.count(context.pool.not_used, kind_of(reason))
        give_up(row, "it could not be pointed to another commit")
        return None


def _does_not_suit(context: WorktreeContext, pooled: WorktreeRow, base_sha: str) -> str | None:
    """Why a kept worktree is not the right one now; it may be later."""
    path = Path(pooled["path"])
    if pooled["note"] is not None:
        return "something else stands in its place"
    try:
        refuse_if_inhabited(context, path, {})
    except Doubt as reason:
        return str(reason)
    if pooled["base_sha"] != base_sha and repointing.changes_rules(context.repo, pooled["base_sha"], base_sha):
        return "a .gitattributes file or a submodule has changed since"
    return None


def _refuse_if_changed(context: WorktreeContext, pooled: WorktreeRow) -> None:
    path, repo = Path(pooled["path"]), context.repo
    if path.parent != context.root:
        raise Doubt("worktrees.root has changed")
    if repointing.is_partial(repo) or repointing.conversion(repo) != pooled["provision"]["conversion"]:
        raise Doubt("git's settings have changed")
    checkout = ownership.prove(context, pooled)
    refuse_extras(checkout, SEAL)
    if checkout.branch() is not None or checkout.head() != pooled["base_sha"]:
        raise Doubt("its HEAD was moved")
    sealed = _seal_of(checkout)
    if not contents.is_sealed(path, sealed["look"]) or repointing.touched(checkout):
        raise Doubt("it was changed meanwhile")
    # a `git status` writes the index too
    if look_of_index(checkout) != sealed["index"] and (
        repointing.index_of(checkout)[1] or not repointing.has_heads_index(checkout)
    ):
        raise Doubt("its index was changed meanwhile")


def _seal_of(checkout: Git) -> dict[str, Any]:
    try:
        seal: dict[str, Any] = json.loads((checkout.git_dir / SEAL).read_text())
    except (OSError, ValueError) as error:
        raise Doubt("its seal cannot be read") from error
    return seal


def _repointed(context: WorktreeContext, pooled: WorktreeRow, row: WorktreeRow) -> WorktreeRow:
    ref = refs.branch_ref(required(row["branch"]))
    worktrees.begin_filling(ownership.prove(context, row))
    row = rename(context, row, Path(row["path"]).with_name(row["name"]))
    prove = partial(ownership.prove, context, row)
    try:
        refs.make_branch(context.repo, ref, row["base_sha"])
    except Conflict:  # somebody has made it a moment ago: it is not this worktree's, and does not go with it
        values = {"branch": f"corral/{pooled['name']}"}
        ownership.move(context, row, values)
        raise
    crash_point("pool.branched")
    (prove().git_dir / SEAL).unlink()
    repointing.put_on_branch(prove, ref)
    crash_point("pool.attached")
    if pooled["base_sha"] != row["base_sha"]:
        repointing.fill(prove, "HEAD")
        crash_point("pool.filled")
        if not repointing.has_heads_index(prove()):
            raise Doubt("its files are not those of the commit")
    worktrees.end_filling(prove())
    return row
