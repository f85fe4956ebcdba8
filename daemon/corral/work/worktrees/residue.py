"""Residue of earlier runs in a folder that is used again: build products and caches, which git ignores and a run may trust.

A verification must see the commit and nothing of its predecessors: CPython, for one, runs an old ``.pyc`` if the source has the
same size and the same second. Files that were brought or set up for the folder stay, by their whole path: a list of it is in the
worktree's git directory, written between the setup and the run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath

from corral.git.process.command import Git
from corral.work.worktrees.provision import Provisioned

_RECORD = "corral-kept.json"


def remove(checkout: Git, top: Path, setup: Sequence[str]) -> None:
    """Remove every ignored file and folder but what :func:`remember` has seen.

    Args:
        checkout: A worktree of Corral's own, never one that somebody works in.
        top: Its folder.
        setup: The setup commands in force; what others have made is not kept.

    Raises:
        GitFailed: Git could not list them.
        OSError: One could not be removed.
    """
    kept = _recorded(checkout, setup)
    for path in _ignored(checkout):
        _clear(top, path, kept)


def remember(checkout: Git, setup: Sequence[str], made: Provisioned) -> None:
    """Take down what is to stay: what was brought, and what the setup commands have made beside it.

    Call it before anything else runs in the worktree. Copies of single files are made each time, and not kept.

    Raises:
        GitFailed: Git could not list what is there.
        OSError: The list could not be written.
    """
    known = {PurePosixPath(path) for path in (*made.owned, *made.copied)}
    set_up = [path for path in _ignored(checkout) if path not in known and not _overlaps(path, known)]
    kept = [*made.owned, *map(str, set_up)]
    (checkout.git_dir / _RECORD).write_text(json.dumps({"setup": list(setup), "kept": kept}))


def _recorded(checkout: Git, setup: Sequence[str]) -> set[PurePosixPath]:
    try:
        found = json.loads((checkout.git_dir / _RECORD).read_text())
    except (FileNotFoundError, ValueError):  # none yet, or half of one: everything is made again
        return set()
    return set(map(PurePosixPath, found["kept"])) if found["setup"] == list(setup) else set()


def _ignored(checkout: Git) -> Iterable[PurePosixPath]:
    listed = checkout.check("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    return map(PurePosixPath, listed.names)


def _overlaps(path: PurePosixPath, others: Collection[PurePosixPath]) -> bool:
    return any(path in other.parents or other in path.parents for other in others)


def _clear(top: Path, path: PurePosixPath, kept: Collection[PurePosixPath]) -> None:
    place = top / path
    if path in kept or any(one in path.parents for one in kept):
        return
    if any(path in one.parents for one in kept) and not place.is_symlink():
        for child in place.iterdir():
            _clear(top, path / child.name, kept)
    elif place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
