"""The difference between two commits, or between a commit and the files of a checkout: bounded, and without a trace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.git.checkouts import status
from corral.git.process.command import Git
from corral.git.refs import oid

_OPTIONS = (
    "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--inter-hunk-context=0",
    "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--diff-algorithm=myers", "-O/dev/null",
)  # fmt: skip
"""The same patch whatever the user's configuration says."""
_CONFIG = {"core.bigFileThreshold": "1m", "core.quotePath": "false"}
"""A larger file counts as binary: its patch would fill the memory and tell nobody anything."""
_TIME_S = 120.0


@dataclass(frozen=True)
class FileChange:
    """A path, and the number of its lines that came and went; None for a binary file."""

    path: str
    added: int | None
    removed: int | None


@dataclass(frozen=True)
class Diff:
    """The difference between two states.

    Attributes:
        files: In the order of their paths.
        patch: In git's format; None if it was not requested.
        truncated: Whether ``patch`` is only the beginning of the patch.
    """

    files: list[FileChange]
    patch: str | None
    truncated: bool


def between(git: Git, before: str, after: str, *, most: int | None) -> Diff:
    """Compare two commits or trees.

    Args:
        most: Bytes of the patch; None: no patch.

    Raises:
        GitFailed: One of them is gone.
    """
    return _diff(git, ("diff-tree", "-r"), (oid(before), oid(after)), most, None)


def to_checkout(checkout: Git, before: str, *, most: int | None) -> Diff:
    """Compare a commit with the files of a checkout, with untracked files and without ignored ones.

    The checkout does not change, and at most one object is written: the empty one.

    Raises:
        GitFailed: The commit is gone, or the checkout cannot be read.
    """
    with _with_new_files(checkout) as index:
        return _diff(checkout, ("diff",), (oid(before),), most, index)


@contextlib.contextmanager
def _with_new_files(checkout: Git) -> Iterator[Path]:
    """A copy of the checkout's index in which git also sees the files that are not tracked yet."""
    untracked = [change for change in status.changes(checkout) if change.code.startswith("?") and not change.nested]
    with status.copied_index(checkout) as index:
        if untracked:
            specs = "".join(f":(top,literal){change.path}\0" for change in untracked)
            checkout.run(  # a file that is gone by now, or cannot be read, is left out
                "add", "--intent-to-add", "--sparse", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul",
                input=specs.encode("utf-8", "surrogateescape"), index_file=index, timeout_s=_TIME_S,
            )  # fmt: skip
        yield index


def _diff(git: Git, verb: Sequence[str], ends: Sequence[str], most: int | None, index: Path | None) -> Diff:
    common = {"index_file": index, "timeout_s": _TIME_S, "config": _CONFIG}
    counted = git.check(*verb, "--numstat", "-z", *_OPTIONS, *ends, "--", **common)
    files = [_file(*entry.split("\t", 2)) for entry in counted.names]
    if most is None:
        return Diff(files, None, False)
    result = git.run(*verb, "--unified=3", *_OPTIONS, *ends, "--", most=most, **common)  # type: ignore[arg-type]
    truncated = len(result.stdout) > most
    if not result.ok and not truncated:
        raise result.failure()
    return Diff(files, result.stdout[:most].decode("utf-8", "replace"), truncated)


def _file(added: str, removed: str, path: str) -> FileChange:
    if added == "-":
        return FileChange(path, None, None)
    return FileChange(path, int(added), int(removed))
