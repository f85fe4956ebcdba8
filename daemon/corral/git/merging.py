"""A merge in a worktree, begun for a person who finishes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from corral.core.instants import UTC
from corral.git import commits
from corral.git.checkouts import status
from corral.git.commits import CORRAL
from corral.git.process.command import Git, as_env


def begin(checkout: Git, ref: str, bases: Sequence[str] = ()) -> None:
    """Begin to merge a ref into the checkout's branch, without a commit, unless it is contained or begun already.

    Args:
        checkout: A worktree of ours. With uncommitted changes in it, nothing begins.
        bases: Commits of the branch whose work the ref has under other names: they count as merged into it.

    Raises:
        GitFailed: Git could not merge at all; conflicts are no failure.
    """
    if is_begun(checkout) or status.changes(checkout, untracked=False):
        return
    into = [] if (branch := checkout.branch()) is None else [f" into {branch.removeprefix('refs/heads/')}"]
    message = f"Merge branch '{ref.removeprefix('refs/heads/')}'{''.join(into)}"
    options = (
        "--no-commit",
        "--no-ff",
        "--no-autostash",
        "--no-verify-signatures",
        "--no-stat",
        "--quiet",
        "-m",
        message,
    )
    result = checkout.run(
        "merge", *options, _joined(checkout, ref, bases) if bases else ref,
        env=as_env(CORRAL), timeout_s=300,  # git wants an identity, and records it nowhere: the person commits
    )  # fmt: skip
    if not result.ok and not is_begun(checkout):
        raise result.failure()


def _joined(checkout: Git, ref: str, bases: Sequence[str]) -> str:
    """A commit with a ref's files whose history has the bases too: git takes them for what both sides have in common."""
    tip = checkout.must("rev-parse", "--verify", f"{ref}^{{commit}}")
    tree, at = checkout.must("show", "-s", "--format=%T %ct", tip).split()
    message = (
        f"{ref.removeprefix('refs/heads/')} has the work of {', '.join(sha[:12] for sha in bases)} under other names\n"
    )
    return commits.create(checkout, tree, (tip, *bases), message, CORRAL, datetime.fromtimestamp(int(at), UTC))


def is_begun(checkout: Git) -> bool:
    """Whether a merge is in progress."""
    return (checkout.git_dir / "MERGE_HEAD").exists()


def conflicts(checkout: Git) -> list[str]:
    """The paths with unresolved conflicts."""
    return [change.path for change in status.changes(checkout, untracked=False) if change.unmerged]
