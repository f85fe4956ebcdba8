"""Create commits: from a tree, without a checkout; and from a finished task's uncommitted changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.core.errors import Conflict
from corral.git.checkouts import staging, status
from corral.git.process.command import Git, Identity, Outcome, as_env


@dataclass(frozen=True)
class Author:
    """Who wrote a commit, and when, as git writes it: seconds and a time zone."""

    identity: Identity
    date: str


def message_with(message: str, trailers: Mapping[str, str]) -> str:
    """A commit message with trailers, each cut to one line."""
    lines = [f"{key}: {' '.join(value.split())}" for key, value in trailers.items()]
    return "\n\n".join(part for part in (message.strip().replace("\0", ""), "\n".join(lines)) if part) + "\n"


def create(
    repo: Git,
    tree: str,
    parents: Sequence[str],
    message: str,
    identity: Identity,
    at: datetime,
    *,
    author: Author | None = None,
) -> str:
    """Create a commit that no ref names yet; the same arguments give the same commit.

    Args:
        identity: The committer.
        author: Whose work it is; None: the committer's, of that time.
    """
    date = f"{int(at.timestamp())} +0000"
    by = author or Author(identity, date)
    return repo.must(
        "commit-tree", "--no-gpg-sign", *(option for parent in parents for option in ("-p", parent)), "-F", "-", tree,
        input=message.replace("\0", "").encode("utf-8", "surrogateescape"),
        env=_signatures(by, Author(identity, date)),
    )  # fmt: skip


def _signatures(author: Author, committer: Author) -> dict[str, str]:
    return {
        **as_env(committer.identity),
        "GIT_AUTHOR_NAME": author.identity.name,
        "GIT_AUTHOR_EMAIL": author.identity.email,
        "GIT_AUTHOR_DATE": author.date,
        "GIT_COMMITTER_DATE": committer.date,
    }


def commit_leftovers(
    checkout: Git,
    message: str,
    trailers: Mapping[str, str],
    identity: Callable[[], Identity],
    *,
    exclude: Sequence[str] = (),
) -> str | None:
    """Commit all changes of a checkout on its HEAD, without hooks and without a signature.

    Args:
        checkout: A worktree of ours.
        trailers: Appended to it, e.g. ``Corral-Task``.
        identity: Returns author and committer; called only if there is something to commit.
        exclude: Repository-relative paths (files or folders, taken literally) to leave alone.

    Returns:
        The new commit, or None if there was nothing to commit.

    Raises:
        Conflict: A merge with unresolved conflicts is in progress.
        GitFailed: Git refused; the work tree is unchanged.
    """
    changes = status.changes(checkout)
    unmerged = [change.path for change in changes if change.unmerged]
    if unmerged:
        raise Conflict(
            f"{len(unmerged)} files have unresolved conflicts.",
            cause="A merge or rebase in this worktree is unfinished.",
            remedy="Resolve them, or abort the merge, then try again.",
            details={"paths": unmerged},
        )
    if not staging.committable(changes, exclude):
        return None
    unread = staging.add_all(checkout, changes, exclude)
    result = checkout.run(
        "commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=verbatim", "--no-status", "--file=-",
        input=message_with(message, trailers).encode("utf-8", "surrogateescape"), env=as_env(identity()), timeout_s=300,
    )  # fmt: skip
    if result.outcome is Outcome.REFUSED and not unread:
        return None
    if not result.ok or unread:
        raise result.failure()
    return checkout.head()
