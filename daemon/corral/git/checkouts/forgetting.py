"""Which salvaged work may be deleted: only what a branch or tag contains too."""

from __future__ import annotations

from datetime import datetime

from corral.git import refs
from corral.git.checkouts.salvage import PREFIX
from corral.git.process.command import Git
from corral.git.refs import Ref

DURABLE = ("refs/heads/", "refs/tags/", PREFIX)
"""Refs that keep work until a person deletes them; refs of the merge queue and of remotes come and go."""


def old_salvage(repo: Git, before: datetime) -> list[Ref]:
    """Salvage saved before an instant, oldest first."""
    return sorted(
        (ref for ref in refs.listing(repo, PREFIX) if ref.created_at < before), key=lambda ref: ref.created_at
    )


def trees_since(repo: Git, since: datetime) -> frozenset[str]:
    """The trees of all commits that branches and tags got since an instant."""
    text = repo.must("log", "--format=%T", f"--since={since.timestamp():.0f}", "--branches", "--tags", timeout_s=120)
    return frozenset(text.split())


def is_held_elsewhere(repo: Git, ref: Ref, trees: frozenset[str]) -> bool:
    """Whether everything in a salvage is also on a branch, a tag, or another salvage.

    Either another durable ref reaches its commit, or every commit that only it reaches has the same tree as a commit
    that a branch got since: the same files were committed under another name.

    Args:
        trees: From :func:`trees_since`, for an instant before it was saved.
    """
    holders = repo.must("for-each-ref", f"--contains={ref.sha}", "--format=%(refname)", *DURABLE).splitlines()
    if any(holder != ref.name for holder in holders):
        return True
    others = [f"--exclude={ref.name}", f"--glob={PREFIX}*", "--branches", "--tags"]
    alone = repo.must("log", "--format=%T", "--max-count=100", ref.sha, "--not", *others).split()
    return bool(alone) and len(alone) < 100 and trees.issuperset(alone)
