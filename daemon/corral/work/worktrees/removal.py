"""Taking a worktree down: proven to be Corral's, salvaged where only it holds something, then removed."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.core.crash import crash_point
from corral.core.errors import WorkAtRisk
from corral.core.events import EventKind
from corral.core.states import LIVE_WORKTREES, WorktreePurpose
from corral.git import refs
from corral.git.checkouts import salvage, worktrees
from corral.git.process.command import OID, Git
from corral.store import events
from corral.store.rows import required
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.guardian.saving import keep_before_removal

if TYPE_CHECKING:
    from corral.work.worktrees.allocation import WorktreeContext


def take_down(context: WorktreeContext, row: WorktreeRow, reason: str) -> str | None:
    """Remove a worktree that is ``reclaiming``, and its branch where nothing needs that; safe to repeat.

    Returns:
        A line about what could not be saved; None: nothing is lost.

    Raises:
        PathReplaced: Something else stands in its place, and is left alone.
        CorralError: It could not be salvaged or removed.
        OSError: A file of one that holds nobody's work could not be removed.
    """
    repo, path = context.repo, Path(row["path"])
    if row["purpose"] == WorktreePurpose.VERIFY:
        ownership.discard(context, row)
        return None
    with context.db.reading() as conn:
        submitted = worktree_rows.is_submitted(conn, row)
    # git lets go of a branch that something else holds; one that waits to be merged has to keep its name
    branch = None if submitted and not path.exists() else row["branch"]
    sparse = context.settings().worktrees.sparse
    if not worktrees.repair(repo, path, branch, lambda: ownership.prove_remains(context, row), sparse=sparse):
        return None
    lost = keep_before_removal(context, ownership.prove(context, row), row, reason)
    repo.flush()  # a power cut must not take the commits after their files are gone
    if not ((submitted or _holds_no_commit(context, row)) and _removed_clean(context, row)):
        _remove_preserved(context, row, reason, submitted=submitted)
    if not submitted:  # the branch goes too, unless it alone holds something
        worktrees.drop_branch(repo, refs.branch_ref(required(row["branch"])))
    return lost


def tidy_branches(context: WorktreeContext) -> None:
    """Delete branches of tasks that nothing needs any more: a git that outlived its daemon may have made one after all.

    Raises:
        GitFailed: Git refused; it is tried again with the next call.
    """
    for ref in refs.listing(context.repo, "refs/heads/corral/"):
        branch = ref.name.removeprefix("refs/heads/")
        with context.db.reading() as conn:
            is_done_with = worktree_rows.is_done_with(conn, branch)
        if is_done_with:
            worktrees.drop_branch(context.repo, ref.name)


def _remove_preserved(context: WorktreeContext, row: WorktreeRow, reason: str, *, submitted: bool) -> None:
    repo, path, ref = context.repo, Path(row["path"]), refs.branch_ref(required(row["branch"]))
    # the branch that HEAD is on goes with the worktree; another one is somebody's
    reattach_head(ownership.prove(context, row), ref)
    snapshot = _preserve(context, row, reason, always=row["purpose"] == WorktreePurpose.TASK and not submitted)
    crash_point("worktree.salvaged")
    if snapshot is None:
        worktrees.remove(repo, path, lambda: ownership.prove(context, row))
        return
    worktrees.remove_salvaged(repo, path, snapshot, keep_branch=True, check=lambda: ownership.prove(context, row))


def _holds_no_commit(context: WorktreeContext, row: WorktreeRow) -> bool:
    """Whether it is where it began, on its own branch."""
    checkout = ownership.prove(context, row)
    return checkout.head() == row["base_sha"] and checkout.branch() == refs.branch_ref(required(row["branch"]))


def _removed_clean(context: WorktreeContext, row: WorktreeRow) -> bool:
    """The usual end: nothing was made, or all of it is on a branch that waits to be merged."""
    try:
        worktrees.remove(context.repo, Path(row["path"]), lambda: ownership.prove(context, row))
    except WorkAtRisk:  # something was written after all: then it is salvaged like everything else
        return False
    return True


def _preserve(context: WorktreeContext, row: WorktreeRow, reason: str, *, always: bool) -> salvage.Snapshot | None:
    """Put a worktree's whole state on a salvage ref; None where refs hold all of it already.

    Args:
        always: The worktree's branch does not count: a failed attempt's commits are kept by a salvage ref alone.
    """
    checkout = ownership.prove(context, row)
    exclude = row["provision"].get("exclude", ())
    head, base = checkout.head(), row["base_sha"]
    forced = always and head != base and not (head and refs.is_ancestor(context.repo, head, base))
    snapshot = salvage.snapshot(checkout, row["name"], context.clock(), reason=reason, exclude=exclude, always=forced)
    if snapshot is not None:
        context.db.write(_salvaged, context, row, snapshot, reason)
    return snapshot


def _salvaged(
    conn: Connection, context: WorktreeContext, row: WorktreeRow, snapshot: salvage.Snapshot, reason: str
) -> None:
    worktree_rows.transition(conn, row["worktree_id"], LIVE_WORKTREES, {"salvage_ref": snapshot.ref})
    event = EventKind.WORKTREE_SALVAGED(
        {"ref": snapshot.ref, "files": snapshot.files[:50], "reason": reason, "worktree": row["name"]}
    )
    events.record(conn, context.clock(), event, task_id=row["task_id"], session_id=row["session_id"])


# -- Where a worktree's HEAD is, and commits that HEAD was switched away from.
#
# Workers switch branches. A commit of ours must not end up on a branch of somebody else's, and what a worker has
# committed beside its own branch is work all the same.

_LEFT = re.compile(r"checkout: moving from (\S+) to ")
_MOVES = ("checkout:", "reset:")
"""Prefixes of the entries of HEAD's log that record a move; every other entry records a new commit."""


def reattach_head(checkout: Git, ref: str) -> None:
    """Take HEAD off any branch but ``ref``: onto ``ref`` if that is at the same commit, else off all branches.

    No file, no index and no branch changes.

    Raises:
        GitFailed: Git refused.
    """
    head = checkout.head()
    if head is None or checkout.branch() in (None, ref):
        return
    if refs.read(checkout, ref) == head:
        checkout.must("symbolic-ref", "-m", "corral: back to its own branch", "HEAD", ref)
    else:
        detach(checkout, head)


def detach(checkout: Git, head: str) -> None:
    """Take HEAD off its branch, which is at ``head``; the branch can then move and the checkout stays clean."""
    checkout.must("update-ref", "--no-deref", "-m", "corral: off the branch", "HEAD", head)


def left_behind(checkout: Git, base: str, target: str) -> list[str]:
    """The tips of commits that were made in this worktree and then left by a switch.

    Args:
        base: Only what descends from it counts.
        target: The branch whose commits are merged already.

    Returns:
        SHAs, none of which has another one; what was left and whose branch was deleted or reset is given up, not left.
    """
    if not _has_moved(checkout):
        return []
    lines = checkout.must("log", "--walk-reflogs", "--format=%H %gs", "HEAD").splitlines()
    entries = [(sha, entry) for sha, _, entry in (line.partition(" ") for line in lines)]
    committed = {sha for sha, entry in entries if not entry.startswith(_MOVES)}
    tips: dict[str, None] = {}
    for (_, entry), (before, _) in pairwise(entries):  # newest first: the second is what the first left
        switch = _LEFT.match(entry)
        if switch and before in committed and (OID.fullmatch(switch[1]) or refs.holder(checkout, before)):
            tips[before] = None
    fresh = [
        sha
        for sha in tips
        if sha != base and refs.is_ancestor(checkout, base, sha) and not refs.is_ancestor(checkout, sha, target)
    ]
    return [sha for sha in fresh if not any(sha != other and refs.is_ancestor(checkout, sha, other) for other in fresh)]


def _has_moved(checkout: Git) -> bool:
    """Whether HEAD's log tells of more than its creation; also where the log is not kept in a file."""
    try:
        return (checkout.git_dir / "logs" / "HEAD").read_bytes().count(b"\n") > 1
    except OSError:
        return True
