"""Residue of earlier runs in a folder that is used again: build products and caches, which a run may trust.

A verification must see the commit and nothing of its predecessors: CPython, for one, runs an old ``.pyc`` if the source has the
same size and the same second. Of what setup commands made only dependency folders stay, while those commands and the lock
files are the same, and only as they were: a list of them, and of how they looked, is in the worktree's git directory, written
before the run. All else that they make may be of the sources of another commit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from corral.git.process.command import Git
from corral.work.worktrees import folders
from corral.work.worktrees.pool import contents

_RECORD = "corral-kept.json"


def remove(checkout: Git, top: Path, made_by: str | None, brought: Iterable[str]) -> None:
    """Remove everything that is not of the commit but what :func:`remember` has seen and nobody has changed since.

    Args:
        checkout: A worktree of Corral's own, never one that somebody works in.
        top: Its folder.
        made_by: Names the setup in force; what another one has made is not kept; None: nothing is.
        brought: Folders that stay as they are, relative to ``top``: somebody else puts them right.

    Raises:
        GitFailed: Git could not list them.
        OSError: One could not be removed.
    """
    kept = {*_unchanged(checkout, top, made_by), *map(PurePosixPath, brought)}
    for path in others(checkout, top):
        _clear(top, path, kept)


def remember(checkout: Git, top: Path, made_by: str, made: Iterable[str]) -> None:
    """Take down what is to stay: the dependency folders that the setup commands have made.

    Call it before anything else runs in the worktree.

    Raises:
        OSError: One could not be looked at, or the list could not be written.
    """
    looks = {path: contents.looks(top, path) for path in made}
    (checkout.git_dir / _RECORD).write_text(json.dumps({"made_by": made_by, "looks": looks}))


def others(checkout: Git, top: Path) -> list[PurePosixPath]:
    """The paths that are not of the commit, folders as a whole: also those that git never names.

    Whether git ignores them does not count: the ``.gitignore`` that said so may have been made by a run, and be gone.
    """
    listed = checkout.check("ls-files", "--others", "--directory", "-z").names
    known = {path.rstrip("/") for path in listed}
    return list(map(PurePosixPath, (*known, *_unnamed(top, known))))


def _unnamed(top: Path, known: Collection[str]) -> Iterator[str]:
    """Sockets, pipes, and what makes a folder of the commit a repository of its own; not in what is known already."""
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(top / folder) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if path == ".git" or path in known or entry.is_symlink():
                    continue
                if entry.name == ".git" or not (entry.is_dir() or entry.is_file()):
                    yield path
                elif entry.is_dir():
                    pending.append(f"{path}/")


def outside(paths: Iterable[PurePosixPath], known: Collection[str]) -> list[PurePosixPath]:
    """Those of some paths that are neither in, above nor equal to one of the known."""
    others = set(map(PurePosixPath, known))
    return [
        path
        for path in paths
        if not any(path == other or path in other.parents or other in path.parents for other in others)
    ]


def _unchanged(checkout: Git, top: Path, made_by: str | None) -> set[PurePosixPath]:
    try:
        record = json.loads((checkout.git_dir / _RECORD).read_text())
    except (FileNotFoundError, ValueError):  # none yet, or half of one: everything is made again
        return set()
    if made_by is None or record.get("made_by") != made_by:
        return set()
    return {PurePosixPath(path) for path, looks in record["looks"].items() if _looks(top, path) == looks}


def _looks(top: Path, path: str) -> contents.Seal | None:
    return contents.looks(top, path) if os.path.lexists(top / path) else None


def _clear(top: Path, path: PurePosixPath, kept: Collection[PurePosixPath]) -> None:
    place = top / path
    if path in kept or any(kept_path in path.parents for kept_path in kept):
        return
    if any(path in kept_path.parents for kept_path in kept) and not place.is_symlink():
        for child in place.iterdir():
            _clear(top, path / child.name, kept)
    else:
        folders.remove(place)
