"""The tag of a process and its descendants: a resource limit that no fork, session or empty environment takes off.

Linux hands the limit ``RLIMIT_RTTIME`` on to every descendant. It bounds real-time processes alone, in microseconds; a tag
is a value of more than a hundred thousand years. Its soft half, which is the tag, can be set back: a daemon that a worker
starts is nobody's descendant.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

PROJECT_MARK = "CORRAL_PROJECT_ID"
"""Set for every process that a daemon starts: the project id of its database."""

TASK_MARK = "CORRAL_TASK_ID"
VERIFICATION_MARK = "CORRAL_VERIFICATION"
WORKTREE_MARK = "CORRAL_WORKTREE"
"""In the environment of every process that works in a worktree, with the worktree's path."""

_TAGGED = 1 << 62
_HALF_BITS = 31
_PURPOSES = (TASK_MARK, VERIFICATION_MARK, WORKTREE_MARK)


def tagging(argv: Sequence[str], marks: Mapping[str, str]) -> list[str]:
    """A command that puts on the tag for marks and becomes ``argv``; ``argv`` itself where the system has no tags."""
    tagger = _tagger()
    if tagger is None or PROJECT_MARK not in marks:
        return list(argv)
    return [tagger, f"--rttime={_tag(marks)}:", "--", *argv]


def is_tagged(pid: int, marks: Mapping[str, str]) -> bool:
    """Whether a process has the tag for marks; for the project's mark alone, any tag of the project."""
    found = _tag_on(pid)
    if found is None or PROJECT_MARK not in marks:
        return False
    if any(name in marks for name in _PURPOSES):
        return found == _tag(marks)
    return found >> _HALF_BITS == _tag(marks) >> _HALF_BITS


def shed() -> None:
    """Take the tag off this process, for those that it starts."""
    if sys.platform == "linux":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
        if soft >= _TAGGED:
            resource.setrlimit(resource.RLIMIT_RTTIME, (hard, hard))


def _tag(marks: Mapping[str, str]) -> int:
    purpose = next((f"{name}={marks[name]}" for name in _PURPOSES if name in marks), "")
    return _TAGGED | _hash(marks[PROJECT_MARK]) << _HALF_BITS | _hash(purpose)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogateescape")).digest()[:4], "big") >> 1


def _tag_on(pid: int) -> int | None:
    if sys.platform == "linux":
        import resource

        with suppress(OSError):
            soft = resource.prlimit(pid, resource.RLIMIT_RTTIME)[0]
            return soft if soft >= _TAGGED else None
    return None


@cache
def _tagger() -> str | None:
    """The program ``prlimit`` of util-linux; None where it is missing, or the limit cannot be set."""
    if sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError):
            limits = resource.getrlimit(resource.RLIMIT_RTTIME)
            resource.setrlimit(resource.RLIMIT_RTTIME, limits)
            return shutil.which("prlimit") if limits[1] == resource.RLIM_INFINITY else None
    return None
