"""The commits between two heads, and how much differs between them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from corral.git.process.command import Git
from corral.git.refs import oid
from corral.models.instants import UTC


@dataclass(frozen=True)
class Commit:
    """A commit, the first line of its message, and when it was made (aware UTC, seconds)."""

    sha: str
    subject: str
    at: datetime


def between(git: Git, old_sha: str | None, new_sha: str, *, limit: int = 100) -> list[Commit]:
    """The commits of a head that another one lacks, along its first parents, oldest first.

    Args:
        old_sha: None: all commits of the head.

    Returns:
        At most ``limit``, the newest ones; none if git no longer has the commits.
    """
    without = [f"^{old_sha}"] if old_sha else []
    result = git.run(
        "log", "--first-parent", f"--max-count={limit}", "-z", "--format=%H %ct %s", new_sha, *without, "--"
    )  # fmt: skip
    found = [entry.split(" ", 2) for entry in result.text.split("\0") if entry] if result.ok else []
    return [Commit(sha, subject, datetime.fromtimestamp(int(at), UTC)) for sha, at, subject in reversed(found)]


def diff_stat(git: Git, a: str, b: str, *, limit: int = 100) -> str:
    """How many lines of each file differ between two commits or trees, for people; of at most ``limit`` files.

    Raises:
        GitFailed: Git does not have one of them any more.
    """
    options = ("--no-renames", "--no-ext-diff", "--no-textconv", f"--stat=100,80,{limit}")
    return git.check("diff-tree", "-r", *options, oid(a), oid(b)).text.rstrip()
