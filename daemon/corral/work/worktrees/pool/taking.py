"""Out of the pool: a kept worktree that nobody has touched becomes the worktree of the next task, on another commit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corral.core.crash import crash_point
from corral.core.errors import Conflict, CorralError
from corral.core.states import LIVE_WORKTREES, WorktreeState
from corral.git import refs
from corral.git.checkouts import repointing, worktrees
from corral.git.process.command import Git
from corral.store.rows import required
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.ownership import rename
from corral.work.worktrees.pool import contents
from corral.work.worktrees.pool.state import (
    SEAL,
    Doubt,
    bounds,
    kind_of,
    look_of_index,
    refuse_extras,
    refuse_if_inhabited,
)

if TYPE_CHECKING:
    from corral.work.worktrees.allocation import Plan, WorktreeContext


def take(
    context: WorktreeContext,
    plan: Plan,
    intend: Callable[[WorktreeRow], WorktreeRow | None],
    give_up: Callable[[WorktreeRow, str], bool],
) -> WorktreeRow | None:
    """Make the worktree of a plan of one that is kept.

    Args:
        intend: Stores the new row with the folder of a kept one, whose row ends; None: that is gone.
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
        context.db.write(lambda conn: worktree_rows.transition(conn, row["worktree_id"], LIVE_WORKTREES, values))
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
