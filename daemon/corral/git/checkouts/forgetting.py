"""Saved work that something else holds too may be forgotten; the only copy never goes without being asked."""

from __future__ import annotations

from datetime import datetime

from corral.git import refs
from corral.git.checkouts.salvage import PREFIX
from corral.git.process.command import Git
from corral.git.refs import Ref

DURABLE = ("refs/heads/", "refs/tags/", PREFIX)
"""Refs that hold work until a person takes them away; those of the merge queue and of remotes come and go."""


def old_salvage(repo: Git, before: datetime) -> list[Ref]:
    """What was saved before an instant, the oldest first."""
    return sorted(
        (ref for ref in refs.listing(repo, PREFIX) if ref.created_at < before), key=lambda ref: ref.created_at
    )


def trees_since(repo: Git, since: datetime) -> frozenset[str]:
    """The trees of all commits that branches and tags got since an instant."""
    text = repo.must("log", "--format=%T", f"--since={since.timestamp():.0f}", "--branches", "--tags", timeout_s=120)
    return frozenset(text.split())


def is_held_elsewhere(repo: Git, ref: Ref, trees: frozenset[str]) -> bool:
    """Whether all that a saved state holds is on a branch, a tag, or another saved state.

    Either another durable ref reaches its commit, or every commit that only it reaches has the tree of one that a branch got
    since: the same files were committed, and landed, under another name.

    Args:
        trees: Of :func:`trees_since`, for an instant before it was saved.
    """
    holders = repo.must("for-each-ref", f"--contains={ref.sha}", "--format=%(refname)", *DURABLE).splitlines()
    if any(holder != ref.name for holder in holders):
        return True
    others = [f"--exclude={ref.name}", f"--glob={PREFIX}*", "--branches", "--tags"]
    alone = repo.must("log", "--format=%T", "--max-count=100", ref.sha, "--not", *others).split()
    return bool(alone) and len(alone) < 100 and trees.issuperset(alone)


def forget(repo: Git, ref: Ref) -> bool:
    """Delete the ref of a saved state; False where it has moved meanwhile."""
    return refs.delete(repo, ref.name, ref.sha)
