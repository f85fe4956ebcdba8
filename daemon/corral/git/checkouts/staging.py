"""Stage the whole state of a checkout in an index: the checkout's own, or a temporary one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from corral.git.checkouts.status import Change
from corral.git.process import scratch
from corral.git.process.command import Git, Outcome


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
