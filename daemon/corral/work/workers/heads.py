"""Where a worktree's HEAD is, and commits that HEAD was switched away from.

Workers switch branches. A commit of ours must not end up on a branch of somebody else's, and what a worker has committed
beside its own branch is work all the same.
"""

from __future__ import annotations

import re
from itertools import pairwise

from corral.git import refs
from corral.git.process.command import OID, Git

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
