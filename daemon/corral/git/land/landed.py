"""Verify, after a landing in a checkout, that no other git has undone it.

A git that Corral could not see (in a container, or a library) may have read the index before a landing and written it
after: then the landed changes are staged as reverted. Their content shows that, and it is repaired.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from corral.core import files
from corral.core.instants import UTC
from corral.git import refs
from corral.git.checkouts import index_lock, status
from corral.git.land import halfway
from corral.git.land.halfway import ABSENT, Note
from corral.git.process.command import Git

_NOTHING = (ABSENT, "0" * 40)
_RECORD = "corral.landed"
_VERIFIED = "verified"

LOOK_AFTER_S = 2.0
"""Delay in seconds between a landing and its check."""

_RACE_S = 10.0
"""Seconds after a landing within which a git may still write what it read before."""

_SET_BACK_S = 120.0
"""A file whose time is further in the future, seconds, was written before the clock was set back."""


@dataclass(frozen=True)
class Verified:
    """The result of the check: paths that were repaired, and landed paths that differ and were left alone."""

    repaired: list[str]
    differ: list[str]


def record_state(checkout: Git, note: Note, *, is_whole: bool = True) -> None:
    """Record the state in which a landing leaves a checkout.

    Args:
        is_whole: False: the index may not contain the landed changes.
    """
    _write(checkout, _signature(checkout) if is_whole else "", str(note))


def was_written(checkout: Git, since: datetime) -> bool:
    """Whether another process has written the index, HEAD or the branch of a checkout after an instant."""
    newest = max((stat.st_mtime for stat in _stats(checkout) if stat), default=0.0)
    if not since.timestamp() < newest <= since.timestamp() + _SET_BACK_S:
        return False
    record = _read(checkout)
    return record is None or record[0] != _signature(checkout)


def due_at(checkout: Git) -> datetime | None:
    """When a landing in a checkout must be checked; None: it was, or there was none."""
    record = _read(checkout)
    if record is None or record[1] == _VERIFIED:
        return None
    return datetime.fromtimestamp((checkout.git_dir / _RECORD).stat().st_mtime, UTC) + timedelta(seconds=LOOK_AFTER_S)


def verify(checkout: Git) -> Verified | None:
    """Check whether a git undid a landing that it did not know of, and repair exactly that.

    For all landed paths except the user's: the index must be as before the landing, the files as before or as landed,
    and the index written within seconds after it. Anything else was done on purpose.

    Returns:
        The result; None if another process has locked the index: try again.

    Raises:
        GitFailed: The state is unknown.
    """
    record = _read(checkout)
    if record is None or record[1] == _VERIFIED:
        return Verified([], [])
    note, result = halfway.parse(record[1]), Verified([], [])
    is_untouched = record[0] == _signature(checkout)
    if not is_untouched and (not record[0] or _is_of_a_race(checkout)):
        if not index_lock.take(checkout):
            return None
        try:
            result = _repair_undone(checkout, note)
        finally:
            index_lock.release(checkout)
            _write(checkout, _signature(checkout) if result.repaired else "", _VERIFIED)
    else:
        _write(checkout, record[0], _VERIFIED)
    return result


def _is_of_a_race(checkout: Git) -> bool:
    index = _stat(checkout.git_dir / "index")
    return index is None or index.st_mtime <= (checkout.git_dir / _RECORD).stat().st_mtime + _RACE_S


def _repair_undone(checkout: Git, note: Note) -> Verified:
    """Under the lock: update the index, and files that are as before, to what landed, if nothing else differs."""
    head = checkout.head()
    if not head or not note.has_arrived(checkout):
        return Verified([], [])
    changed_since = set(refs.changed_paths(checkout, note.new_sha, head))
    steps = {step.path: step for step in note.steps(checkout) if step.path not in changed_since}
    index = status.staged(checkout)
    undone = {path for path, step in steps.items() if index.get(path, _NOTHING) == (step.old_mode, step.old_blob)}
    if not undone:
        return Verified([], [])
    sparse = checkout.run("config", "--type=bool", "--get", "core.sparseCheckout").text.strip() == "true"
    if len(undone) < len(steps) or sparse:
        return Verified([], sorted(undone))
    private = index_lock.copy_index(checkout)
    ordered = sorted(
        steps.values(), key=lambda step: step.new_mode != ABSENT
    )  # a file makes room for a folder, or the reverse
    lines = "".join(f"{step.new_mode} {step.new_blob}\t{step.path}\0" for step in ordered)
    checkout.check("update-index", "-z", "--index-info", input=os.fsencode(lines), index_file=private)
    unlike_landed, unlike_before = (_differing(checkout, file) & undone for file in (private, None))
    # A path in neither index has no entry to compare.
    existing = {path for path in undone if halfway.is_file(checkout.top / path)}
    unlike_landed |= {path for path in existing if steps[path].new_mode == ABSENT}
    unlike_before |= {path for path in existing if ABSENT in (steps[path].old_mode, steps[path].new_mode)}
    if somebodys := unlike_landed & unlike_before:
        shutil.rmtree(private.parent)
        return Verified([], sorted(somebodys))
    names = os.fsencode("".join(f"{path}\0" for path in sorted(unlike_landed)))
    checkout.check("checkout-index", "--force", "-u", "-z", "--stdin", input=names, index_file=private, timeout_s=600)
    index_lock.replace_index(checkout, private)
    return Verified(sorted(undone), [])


def _differing(checkout: Git, index_file: Path | None) -> set[str]:
    if index_file:
        checkout.run("update-index", "-q", "--refresh", index_file=index_file)
    return set(checkout.check("diff-files", "--name-only", "--no-renames", "-z", index_file=index_file).names)


def _signature(checkout: Git) -> str:
    return " ".join(f"{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}" if stat else "-" for stat in _stats(checkout))


def _stats(checkout: Git) -> list[os.stat_result | None]:
    """Stat of index, HEAD and branch: any git that writes more than files changes one of them."""
    branch = refs.checked_out(checkout)
    places = [checkout.git_dir / "index", checkout.git_dir / "HEAD"]
    return [_stat(place) for place in (*places, *([checkout.common_dir / branch] if branch else []))]


def _stat(place: Path) -> os.stat_result | None:
    try:
        return place.stat()
    except OSError:
        return None


def _read(checkout: Git) -> tuple[str, str] | None:
    """Parse the signature, and the note's text or that it is verified."""
    try:
        signature, _, rest = os.fsdecode((checkout.git_dir / _RECORD).read_bytes()).partition("\0")
    except FileNotFoundError:
        return None
    return signature, rest


def _write(checkout: Git, signature: str, rest: str) -> None:
    files.replace(checkout.git_dir / _RECORD, os.fsencode(f"{signature}\0{rest}"), durable=True)
