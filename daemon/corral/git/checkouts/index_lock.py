"""Git's own lock on the index of a checkout (``index.lock``), taken by Corral while it fast-forwards that checkout.

The lock has the same content as a file of Corral's own beside it, one that no other has: so whose it is can be proven at
any time, whatever was killed when. As a rule both are one file with two names, so that the lock is never there without it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from corral.git.process.command import Git
from corral.models.identifiers import new_id
from corral.models.instants import UTC

_OWN = "corral.landing.lock"
_ASIDE = "corral.landing.index-"
_WITHDRAWN = "corral.landing.withdrawn-"


def take(checkout: Git) -> bool:
    """Take the lock; False if somebody has it, or one that an earlier life left is there and not given up yet.

    Raises:
        OSError: Nothing can be written in the git directory.
    """
    if is_ours(checkout):  # the proof of it would go with the file beside it
        return False
    own, lock = _own(checkout), path(checkout)
    own.unlink(missing_ok=True)  # never rewritten in place: a lock that is left may be the same file
    text = f"Corral holds this lock while it lands a commit in this checkout.\n{new_id()}\n"
    own.write_text(text)
    try:
        try:
            os.link(own, lock)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            with lock.open("x") as made:
                made.write(text)
    except FileExistsError:
        own.unlink(missing_ok=True)
        return False
    return True


def is_ours(checkout: Git) -> bool:
    """Whether the lock is there and is one that :func:`take` made, in this life or an earlier one."""
    try:
        return path(checkout).read_bytes() == _own(checkout).read_bytes() != b""
    except OSError:
        return False


def release(checkout: Git) -> None:
    """Give up the lock if it is ours; safe to repeat."""
    if is_ours(checkout):
        path(checkout).unlink(missing_ok=True)
    _own(checkout).unlink(missing_ok=True)


def is_left(checkout: Git) -> bool:
    """Whether a lock was taken, or was about to be, and not given up."""
    return _own(checkout).exists()


def whose(checkout: Git, lock: Path | None = None) -> str:
    """What keeps us from taking a lock (None: this one): the file, since when it is there, and what to type."""
    lock = lock or path(checkout)
    since = ""
    with suppress(OSError):
        since = f", there since {datetime.fromtimestamp(lock.stat().st_mtime, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return (
        f"a git command is running in {checkout.work_tree}, or was killed and left its lock {lock}{since}."
        f" If none is running, type `rm {shlex.quote(str(lock))}`"
    )


def copy_index(checkout: Git) -> Path:
    """A copy of the index in a folder of its own, on the same file system, for a git to write in the index's stead.

    Its time is the index's, which tells git what to compare anew.
    """
    copy, index = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=checkout.git_dir)) / "index", checkout.git_dir / "index"
    if index.exists():
        shutil.copy2(index, copy)
    return copy


def replace_index(checkout: Git, written: Path) -> None:
    """Put an index that was written aside into place; only under the lock."""
    written.replace(checkout.git_dir / "index")
    shutil.rmtree(written.parent, ignore_errors=True)


def withdraw_copies(checkout: Git) -> list[Path]:
    """Take the copies from every git that is to write one: it fails before it changes anything, however late it starts.

    Returns:
        Where they are now; :func:`drop_copies` removes them.
    """
    for folder in checkout.git_dir.glob(f"{_ASIDE}*"):
        folder.rename(folder.with_name(folder.name.replace(_ASIDE, _WITHDRAWN)))
    return sorted(checkout.git_dir.glob(f"{_WITHDRAWN}*/index"))


def drop_copies(checkout: Git) -> None:
    """Remove what :func:`withdraw_copies` has withdrawn."""
    for folder in checkout.git_dir.glob(f"{_WITHDRAWN}*"):
        shutil.rmtree(folder, ignore_errors=True)


def is_copy(checkout: Git, path: str) -> bool:
    """Whether this is the name of a copy, withdrawn or not."""
    return path.startswith(str(checkout.git_dir / _ASIDE))


def path(checkout: Git) -> Path:
    """Where git keeps the lock on the index of a checkout."""
    return checkout.git_dir / "index.lock"


def _own(checkout: Git) -> Path:
    return checkout.git_dir / _OWN
