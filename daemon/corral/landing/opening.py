"""Open a merge request's work in a worktree, for a person to repair it."""

from __future__ import annotations

from pathlib import Path

from corral.core.errors import PathReplaced
from corral.core.states import MergeState
from corral.git import merging, refs
from corral.git.process.command import Git, open_checkout
from corral.landing.api import Opened
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges import diffs
from corral.work.worktrees.worktrees import Worktrees


def open_request(db: Store, repo: Git, worktrees: Worktrees, merge: MergeRow) -> Opened:
    """Make a worktree at a request's head, or find the one made before; after a conflict, begin the merge in it.

    Neither the request's branch nor any other checkout is touched. What a person has there already stays as it is.

    Raises:
        Conflict: A worktree of that name began at another commit.
        PathReplaced: Something else stands at its path.
        GitFailed: The merge could not begin.
    """
    name = f"look-{merge['merge_id'][:8]}"
    row = worktrees.create(name, session_id=None, base=merge["head_sha"])
    if not worktrees.is_own(name):
        raise PathReplaced(f"Something else stands at {row['path']}.", remedy="Move it away, then try again.")
    checkout = open_checkout(Path(row["path"]))
    if merge["state"] == MergeState.CONFLICT:
        target = refs.branch_ref(merge["target"])
        tip = refs.read(repo, target)
        merging.begin(checkout, target, diffs.bases(db, repo, merge, tip) if tip is not None else ())
    return {
        "merge_id": merge["merge_id"],
        "name": name,
        "path": row["path"],
        "branch": row["branch"],
        "target": merge["target"],
        "merging": merging.is_begun(checkout),
        "conflicts": merging.conflicts(checkout),
    }
