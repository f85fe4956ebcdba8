"""Git's own lock on the index of a checkout (``index.lock``), held by Corral while it fast-forwards that checkout.

The lock has the same unique content as a file of Corral's beside it, so its owner can be proven at any time, even after
a kill. Usually both are hard links to one file, so that the lock never exists without the proof.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from corral.core.identifiers import new_id
from corral.core.instants import UTC
from corral.git.process.command import Git

_OWN = "corral.landing.lock"
_ASIDE = "corral.landing.index-"
_WITHDRAWN = "corral.landing.withdrawn-"


def take(checkout: Git) -> bool:
    """Take the lock; False if another process has it, or one from before a crash is not released yet.

    Raises:
        OSError: The git directory cannot be written.
    """
    if is_ours(checkout):  # removing the file beside it would remove the proof
        return False
    own, lock = _own(checkout), path(checkout)
    own.unlink(missing_ok=True)  # never rewritten in place: a leftover lock may be the same file
    text = f"Corral holds this lock while it lands a commit in this checkout.\n{new_id()}\n"
    own.write_text(text)
    try:
        try:
            os.link(own, lock)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            with lock.open("x") as file:
                file.write(text)
    except FileExistsError:
        own.unlink(missing_ok=True)
        return False
    return True


def is_ours(checkout: Git) -> bool:
    """Whether the lock exists and was created by :func:`take`, in this process or an earlier one."""
    own, lock = _own(checkout), path(checkout)
    try:
        return lock.samefile(own) or lock.read_bytes() == own.read_bytes() != b""
    except OSError:
        return False


def release(checkout: Git) -> None:
    """Release the lock if it is ours; safe to repeat."""
    if is_ours(checkout):
        path(checkout).unlink(missing_ok=True)
    _own(checkout).unlink(missing_ok=True)


def is_left(checkout: Git) -> bool:
    """Whether a lock was taken, or was about to be, and not released."""
    return _own(checkout).exists()


def describe_blocker(checkout: Git, lock: Path | None = None) -> str:
    """Describe the lock that blocks (None: this one): the file, its age, and what to type."""
    lock = lock or path(checkout)
    since = ""
    with suppress(OSError):
        since = f", there since {datetime.fromtimestamp(lock.stat().st_mtime, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return (
        f"a git command is running in {checkout.work_tree}, or was killed and left its lock {lock}{since}."
        f" If none is running, type `rm {shlex.quote(str(lock))}`"
    )


def copy_index(checkout: Git) -> Path:
    """Copy the index to its own folder on the same file system, for a git to write in place of the index.

    The copy keeps the modification time, which tells git what to compare again.
    """
    copy, index = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=checkout.git_dir)) / "index", checkout.git_dir / "index"
    if index.exists():
        shutil.copy2(index, copy)
    return copy


def replace_index(checkout: Git, written: Path) -> None:
    """Rename a written copy of the index into place; only under the lock."""
    written.replace(checkout.git_dir / "index")
    shutil.rmtree(written.parent, ignore_errors=True)


def withdraw_copies(checkout: Git) -> list[Path]:
    """Rename the copies, so that a git that starts late to write one fails before it changes anything.

    Returns:
        Their new paths; :func:`drop_copies` removes them.
    """
    for folder in checkout.git_dir.glob(f"{_ASIDE}*"):
        folder.rename(folder.with_name(folder.name.replace(_ASIDE, _WITHDRAWN)))
    return sorted(checkout.git_dir.glob(f"{_WITHDRAWN}*/index"))


def drop_copies(checkout: Git) -> None:
    """Remove what :func:`withdraw_copies` has renamed."""
    for folder in checkout.git_dir.glob(f"{_WITHDRAWN}*"):
        shutil.rmtree(folder, ignore_errors=True)


def is_copy(checkout: Git, path: str) -> bool:
    """Whether this is the name of a copy, renamed or not."""
    return path.startswith(str(checkout.git_dir / _ASIDE))


def path(checkout: Git) -> Path:
    """The path of git's lock on the index of a checkout."""
    return checkout.git_dir / "index.lock"


def _own(checkout: Git) -> Path:
    return checkout.git_dir / _OWN
