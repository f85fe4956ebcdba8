"""When paths were last changed, from the files and the commits of a repository."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from corral.git.checkouts.status import signature
from corral.git.process.command import Git


def pathspecs(path: str, *, is_pattern: bool, fold: bool) -> list[str]:
    """Convert a path or a glob, and everything below it, to git pathspecs.

    Args:
        path: Repository-relative; a glob has the syntax of :mod:`corral.coordination.locks.globs`, which is git's ``glob``.
        fold: Whether to ignore case.
    """
    case = ",icase" if fold else ""
    if not is_pattern:
        return [f":(top,literal{case}){path}"]
    return [f":(top,glob{case}){path}", f":(top,glob{case}){path}/**"]


def last_written_at(checkout: Git, specs: Sequence[str]) -> datetime | None:
    """The modification time of the newest matching file, tracked or not (but not ignored); None if there is none.

    Raises:
        GitFailed: Git could not list them.
    """
    listed = checkout.check("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--full-name", "--", *specs)
    newest_ns = max((seen[0] for name in listed.names if (seen := signature(checkout.top, name))), default=None)
    return None if newest_ns is None else datetime.fromtimestamp(newest_ns / 1e9, timezone.utc)


def last_committed_at(repo: Git, specs: Sequence[str], since: datetime) -> datetime | None:
    """The time of the latest commit on any branch since an instant that touches matching paths; None if there is none.

    Raises:
        GitFailed: Git could not read its history.
    """
    time_s = repo.must("log", "--branches", "-1", "--format=%ct", f"--since={since.timestamp():.0f}", "--", *specs)
    return datetime.fromtimestamp(int(time_s), timezone.utc) if time_s else None
