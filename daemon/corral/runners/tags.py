"""The tag of a process and its descendants: a resource limit that no fork, session or empty environment removes.

Every descendant inherits the limit ``RLIMIT_RTTIME``. It applies to real-time processes alone, in microseconds; a tag is a value
of more than a hundred thousand years. The tag is the soft limit, which can be reset: a daemon that a worker starts must not count
as its descendant.
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
    """A command that sets the tag for marks and then executes ``argv``; ``argv`` itself where the system has no tags."""
    tagger = _tagger()
    if tagger is None or PROJECT_MARK not in marks:
        return list(argv)
    return [tagger, f"--rttime={_tag(marks)}:", "--", *argv]


def is_tagged(pid: int, marks: Mapping[str, str]) -> bool:
    """Whether a process has the tag for marks; for the project's mark alone, any tag of the project."""
    tag = _tag_on(pid)
    if tag is None or PROJECT_MARK not in marks:
        return False
    if any(name in marks for name in _PURPOSES):
        return tag == _tag(marks)
    return tag >> _HALF_BITS == _tag(marks) >> _HALF_BITS


def shed() -> None:
    """Remove the tag from this process, so that processes that it starts have none."""
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
