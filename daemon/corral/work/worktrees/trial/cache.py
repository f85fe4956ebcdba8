"""Dependency folders as a recipe's own command made them, by the key of what decided them (:mod:`.locks`).

An entry is written aside and renamed in: it is whole or not there. One that is not what it was when it was written is removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.config.links import CACHE, make_own_folder
from corral.config.paths import Project
from corral.work.worktrees.provision import MARKER
from corral.work.worktrees.trial.mirror import Known, look_again, mirror, swapped

MOST = 4
"""Entries that are kept; the one that was not used for longest goes first."""

_META = "folders.json"


@dataclass(frozen=True)
class Entry:
    """What is stored under a key.

    Attributes:
        digests: By the folder's path in the worktree, the digest of what it holds.
    """

    place: Path
    digests: dict[str, str]

    def folder(self, path: str) -> Path:
        """Where the copy of one of the folders is."""
        return self.place / str(list(self.digests).index(path))


def find(project: Project, key: str) -> Entry | None:
    """The entry of a key, which counts as used now; None: there is none."""
    place = _root(project) / key
    try:
        digests = json.loads((place / _META).read_text())
        os.utime(place)
    except (FileNotFoundError, ValueError):
        return None
    return Entry(place, digests)


def store(project: Project, key: str, worktree: Path, paths: Sequence[str]) -> tuple[Entry, dict[str, Known]]:
    """Copy folders of a worktree into the cache.

    Returns:
        The entry, and by path what is known of it and of the worktree's folder as its copy.

    Raises:
        OSError: The disk is full, say; nothing half-made counts.
    """
    root = make_own_folder(_root(project), project.root)
    aside = root / f"{key}.new"
    _remove(aside)
    aside.mkdir(mode=0o700)
    mirrors = {
        path: mirror(worktree / path, aside / str(number), {}, keep=(MARKER,)) for number, path in enumerate(paths)
    }
    digests = {path: mirrored.digest for path, mirrored in mirrors.items()}
    (aside / _META).write_text(json.dumps(digests))
    place = root / key
    _remove(place)
    aside.rename(place)
    newest_first = sorted(_entries(root), key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    for old in newest_first[MOST:]:
        if old != place:
            _remove(old)
    entry = Entry(place, digests)
    return entry, {path: swapped(look_again(mirrored, entry.folder(path))) for path, mirrored in mirrors.items()}


def forget(entry: Entry) -> None:
    """Remove an entry.

    Raises:
        OSError: It could not be removed.
    """
    _remove(entry.place)


def _root(project: Project) -> Path:
    return project.home / CACHE / "dependencies"


def _entries(root: Path) -> list[Path]:
    return [entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink()]


def _remove(place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
