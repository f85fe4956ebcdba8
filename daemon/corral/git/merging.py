"""A merge in a worktree, begun for a person who finishes it."""

from __future__ import annotations

from corral.git.checkouts import status
from corral.git.identity import CORRAL
from corral.git.process.command import Git, as_env


def begin(checkout: Git, ref: str) -> None:
    """Begin to merge a ref into the checkout's branch, without a commit, unless it is contained or begun already.

    Args:
        checkout: A worktree of ours. With uncommitted changes in it, nothing begins.

    Raises:
        GitFailed: Git could not merge at all; conflicts are no failure.
    """
    if is_begun(checkout) or status.changes(checkout, untracked=False):
        return
    result = checkout.run(
        "merge", "--no-commit", "--no-ff", "--no-autostash", "--no-verify-signatures", "--no-stat", "--quiet", ref,
        env=as_env(CORRAL), timeout_s=300,  # git wants an identity, and records it nowhere: the person commits
    )  # fmt: skip
    if not result.ok and not is_begun(checkout):
        raise result.failure()


def is_begun(checkout: Git) -> bool:
    """Whether a merge is in progress."""
    return (checkout.git_dir / "MERGE_HEAD").exists()


def conflicts(checkout: Git) -> list[str]:
    """The paths with unresolved conflicts."""
    return [change.path for change in status.changes(checkout, untracked=False) if change.unmerged]
