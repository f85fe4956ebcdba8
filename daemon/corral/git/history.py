"""The commits between two heads, and how much differs between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.core.instants import UTC
from corral.git.process.command import Git
from corral.git.refs import oid


@dataclass(frozen=True)
class Commit:
    """A commit, the first line of its message, when it was made (aware UTC, seconds), and its author's name."""

    sha: str
    subject: str
    at: datetime
    author: str


def between(git: Git, old_sha: str | None, new_sha: str, *, limit: int = 100) -> list[Commit]:
    """The commits of a head that another one lacks, along its first parents, oldest first.

    Args:
        old_sha: None: all commits of the head.

    Returns:
        At most ``limit``, the newest ones; none if git no longer has the commits.
    """
    without = [f"^{old_sha}"] if old_sha else []
    result = git.run(
        "log", "--first-parent", f"--max-count={limit}", "-z", "--format=%H%x1f%ct%x1f%an%x1f%s", new_sha, *without, "--"
    )  # fmt: skip
    entries = [entry.split("\x1f", 3) for entry in result.text.split("\0") if entry] if result.ok else []
    return [
        Commit(sha, subject, datetime.fromtimestamp(int(at), UTC), author)
        for sha, at, author, subject in reversed(entries)
    ]


@dataclass(frozen=True)
class Written:
    """A commit: its author, ``Name <email>``, and the first line of its message."""

    author: str
    subject: str


def last_written(git: Git, path: str, text: str) -> Written | None:
    """The commit of the text that a file has.

    Args:
        path: Its path in the repository.
        text: Its text, with a newline at each end of a line.

    Returns:
        None if the head has another text, or no such file.
    """
    blob = git.run("cat-file", "blob", f"HEAD:{path}")
    if not blob.ok or blob.text.removeprefix("\ufeff").replace("\r\n", "\n") != text:
        return None
    result = git.run("log", "-1", "--format=%an <%ae>%x00%s", "HEAD", "--", f":(top,literal){path}")
    author, _, subject = result.text.rstrip("\n").partition("\0")
    return Written(author, subject) if result.ok and author else None


def committed(git: Git, path: str) -> bytes:
    """What the head has of a file, by its path in the repository; nothing of one that it does not have."""
    blob = git.run("cat-file", "blob", f"HEAD:{path}")
    return blob.stdout if blob.ok else b""


def written_between(git: Git, without: Sequence[str], head: str, *, limit: int) -> list[Written]:
    """The commits of a head that others lack, but for merges, oldest first; of more than ``limit`` the newest.

    Raises:
        GitFailed: Git does not have one of them.
    """
    options = ("--no-merges", "--reverse", f"--max-count={limit}", "--encoding=UTF-8", "-z", "--format=%an <%ae>%x00%s")
    parts = git.check("log", *options, oid(head), *(f"^{oid(sha)}" for sha in without), "--").text.split("\0")
    return [Written(author, subject) for author, subject in zip(parts[0::2], parts[1::2], strict=False)]


def diff_stat(git: Git, a: str, b: str, *, limit: int = 100) -> str:
    """How many lines of each file differ between two commits or trees, for people; of at most ``limit`` files.

    Raises:
        GitFailed: Git does not have one of them any more.
    """
    options = ("--no-renames", "--no-ext-diff", "--no-textconv", f"--stat=100,80,{limit}")
    return git.check("diff-tree", "-r", *options, oid(a), oid(b)).text.rstrip()
