"""Create commits: from a tree, without a checkout; and from a finished task's uncommitted changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.core.errors import Conflict
from corral.git import refs
from corral.git.checkouts import status
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
    if not status.committable(changes, exclude):
        return None
    unread = status.add_all(checkout, changes, exclude)
    result = checkout.run(
        "commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=verbatim", "--no-status", "--file=-",
        input=message_with(message, trailers).encode("utf-8", "surrogateescape"), env=as_env(identity()), timeout_s=300,
    )  # fmt: skip
    if result.outcome is Outcome.REFUSED and not unread:
        return None
    if not result.ok or unread:
        raise result.failure()
    return checkout.head()


# -- Commits that add files to another commit, made without a checkout


def add_files(git: Git, ref: str, base_sha: str, files: Mapping[str, str], message: str, at: datetime) -> str:
    """Have a ref of Corral's own name a commit with more files than ``base_sha``; the same again changes nothing.

    Args:
        files: The content by a path that was checked.

    Returns:
        The commit.

    Raises:
        GitFailed: Git refused.
    """
    if (existing_sha := refs.read(git, ref)) is not None:
        return existing_sha
    encoded_message = message.encode()
    stream = [
        f"commit {ref}\ncommitter Corral <corral@localhost> {int(at.timestamp())} +0000\ndata {len(encoded_message)}\n".encode()
    ]
    stream += [encoded_message, f"\nfrom {base_sha}\n".encode()]
    for path, text in files.items():
        data = text.encode()
        stream += [f"M 100644 inline {path}\ndata {len(data)}\n".encode(), data, b"\n"]
    git.must("fast-import", "--quiet", "--date-format=raw", "--done", input=b"".join([*stream, b"done\n"]))
    commit_sha = refs.read(git, ref)
    assert commit_sha is not None
    return commit_sha


# -- The author of a commit: git's configuration, else the submitter, else Corral; a missing identity never fails a
# task

CORRAL = Identity("Corral", "corral@localhost")
_CRUD = re.compile(r"[\x00-\x20.,:;<>\"\\']+")


def effective(git: Git, fallback: Identity | None) -> Identity:
    """Choose the identity for a commit.

    Args:
        git: The checkout or repository whose configuration counts.
        fallback: The submitter's, from ``GIT_AUTHOR_*`` / ``GIT_COMMITTER_*``.
    """
    result = git.run("config", "-z", "--get-regexp", r"^user\.(name|email)$")
    configured = dict(item.split("\n", 1) for item in result.text.split("\0") if "\n" in item)
    candidates = [Identity(configured.get("user.name", ""), configured.get("user.email", "")), fallback, CORRAL]
    return next(identity for identity in candidates if identity is not None and is_usable(identity))


def is_usable(identity: Identity) -> bool:
    """Whether git takes it: it refuses a name that consists only of characters that it strips."""
    return "\0" not in identity.name + identity.email and all(
        _CRUD.sub("", part) for part in (identity.name, identity.email)
    )
