"""The current state of a checkout: one git process, no lock taken, nothing written."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.git import refs
from corral.git.process import scratch
from corral.git.process.command import Git, Outcome

Signature = tuple[int, int, int] | None
"""``(mtime_ns, size, mode)`` of a path that differs from HEAD; None: it does not exist."""

_FIELDS = {"1": 8, "2": 9, "u": 10}
"""Number of spaces before the path in a line of porcelain v2, by kind of line."""


@dataclass(frozen=True)
class Change:
    """A path that differs from HEAD: ``code`` is git's XY (``.M``, ``A.``, ``UU``), or ``??`` for untracked.

    The path of an untracked repository inside the checkout ends in ``/``.
    """

    path: str
    code: str
    dirty_inside: bool = False
    """A submodule with its own changes or untracked files, at any depth."""

    @property
    def unmerged(self) -> bool:
        """Whether this is an unresolved conflict."""
        return self.code in ("DD", "AU", "UD", "UA", "DU", "AA", "UU")

    @property
    def nested(self) -> bool:
        """Whether this is a nested repository, which git does not look into."""
        return self.code == "??" and self.path.endswith("/")


@dataclass(frozen=True)
class Seen:
    """The state of a checkout: its HEAD, and every path that differs from it."""

    head: str | None
    files: dict[str, Signature]
    checkout: Git = field(compare=False, repr=False)


def changes(checkout: Git, *, untracked: bool = True, **how: Any) -> list[Change]:
    """Every path that differs from HEAD, in the index or the work tree; untracked files one by one, no ignored ones.

    Args:
        how: As :meth:`Git.run` takes it.
    """
    return _status(checkout, untracked=untracked, **how)[1]


def look(checkout: Git, *, untracked: bool = True) -> Seen:
    """Read the state of a checkout, to compare it with a later one."""
    return _seen(checkout, *_status(checkout, untracked=untracked)[:2])


def look_at_all(checkout: Git) -> tuple[Seen, list[str]]:
    """The same, and the paths that git ignores: folders as a whole where a rule names them, with a trailing slash."""
    head, changed, ignored = _status(checkout, ignored=True)
    return _seen(checkout, head, changed), ignored


def _seen(checkout: Git, head: str | None, changed: list[Change]) -> Seen:
    return Seen(head, {change.path: signature(checkout.top, change.path) for change in changed}, checkout)


def differences(before: Seen, after: Seen) -> list[str]:
    """Paths whose state differs between two looks at one checkout, and paths committed between their heads.

    A file with only a new modification time may be included.
    """
    paths = {
        path
        for path in before.files.keys() | after.files.keys()
        if before.files.get(path, "clean") != after.files.get(path, "clean")
    }
    if after.head and before.head != after.head:
        paths.update(refs.changed_paths(after.checkout, before.head or refs.empty_tree(after.head), after.head))
    return sorted(paths)


def signature(top: Path, path: str) -> Signature:
    """The current signature of a path of a checkout (its top folder)."""
    try:
        stat = os.lstat(top / path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_mode


def _status(
    checkout: Git, *, untracked: bool = True, ignored: bool = False, **how: Any
) -> tuple[str | None, list[Change], list[str]]:
    which = "all" if untracked else "no"
    result = checkout.check(
        "status", "--porcelain=v2", "-z", "--branch", f"--untracked-files={which}", "--no-renames",
        f"--ignored={'matching' if ignored else 'no'}",
        f"--ignore-submodules={'none' if untracked else 'untracked'}",  # .gitmodules may tell git to ignore changes
        **how,
    )  # fmt: skip
    head: str | None = None
    changed, passed_over = list[Change](), list[str]()
    for line in result.text.split("\0"):
        kind, _, rest = line.partition(" ")
        if line.startswith("# branch.oid ") and not line.endswith("(initial)"):
            head = line.removeprefix("# branch.oid ")
        elif kind == "?":
            changed.append(Change(rest, "??"))
        elif kind == "!":
            passed_over.append(rest)
        elif kind in _FIELDS:
            submodule = rest[3:7]  # `N...`, or `S` and three marks: another commit, changes, untracked files
            dirty_inside = submodule[0] == "S" and submodule[2:] != ".."
            changed.append(Change(line.split(" ", _FIELDS[kind])[-1], rest[:2], dirty_inside))
    return head, changed, passed_over


def staged(checkout: Git, **how: Any) -> dict[str, tuple[str, str]]:
    """The mode and the object of every path in an index; of one that is not merged, those of one of its sides.

    Args:
        how: As :meth:`Git.run` takes it.
    """
    entries = (entry.partition("\t") for entry in checkout.check("ls-files", "--stage", "-z", **how).names)
    return {path: (mode, blob) for about, _, path in entries for mode, blob, _stage in [about.split(" ")]}


# -- Stage the whole state of a checkout in an index: the checkout's own, or a temporary one


def committable(changes: Sequence[Change], exclude: Sequence[str]) -> list[Change]:
    """The changes that can be committed and are not under an excluded path (repository-relative, literal)."""
    folders = tuple(f"{path.rstrip('/')}/" for path in exclude)
    return [
        change
        for change in changes
        if not change.nested and change.path not in exclude and not f"{change.path}/".startswith(folders)
    ]


def add_all(checkout: Git, changes: Sequence[Change], exclude: Sequence[str], index_file: Path | None = None) -> str:
    """Stage everything except the excluded paths and the repositories inside the checkout.

    Returns:
        Git's message about unreadable files; empty if everything was staged.
    """
    skipped = [*exclude, *(change.path.rstrip("/") for change in changes if change.nested)]
    specs = [":/", *(f":(top,exclude,literal){path}" for path in skipped)]
    result = checkout.run(
        "add", "-A", "--sparse", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul",
        input="\0".join(specs).encode("utf-8", "surrogateescape"), index_file=index_file, timeout_s=600,
    )  # fmt: skip
    if result.outcome in (Outcome.LOCK, Outcome.INFRA):
        raise result.failure()
    return "" if result.ok else result.stderr


@contextlib.contextmanager
def copied_index(checkout: Git) -> Iterator[Path]:
    """A temporary copy of the checkout's index. It keeps the modification time, by which git decides what is unchanged."""
    with scratch.folder(checkout) as folder:
        copy = folder / "index"
        with contextlib.suppress(FileNotFoundError):  # a checkout without a commit may have no index yet
            shutil.copy2(checkout.git_dir / "index", copy)
        yield copy
