"""Make one folder equal to another by copying what differs: real files, never links to those of the other.

Earlier copies that are unchanged on both sides stay, so a second run only looks at each file. Whoever writes into the
copy changes its file's inode, size or times, of which the system sets one itself (ctime).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.work.worktrees.folders import NEVER, copy_file, remove, sorted_entries

Look = list[int]
Known = dict[str, tuple[Look, Look, str]]
"""By path in the folder: how the file looked at its source, how its copy looks, and the digest of what was copied."""

RACY_NS = 20_000_000
"""A file that was changed so shortly before its look was stored may be changed again without looking different."""

_CHUNK = 1 << 20


@dataclass
class Mirrored:
    """The result of :func:`mirror`; paths are relative to the folder.

    Attributes:
        known: What the next call needs, once :func:`look_again` has completed it.
        fresh: Files that were copied now.
        links: Symlinks of the copy.
        digest: Of the names, modes and contents at the source, and of its symlinks as they are written.
    """

    known: Known = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    digest: str = ""


def as_written(link: Path) -> str:
    """Lead a symlink where it led."""
    return os.readlink(link)  # noqa: PTH115 - as it is written


def mirror(
    source: Path,
    place: Path,
    known: Mapping[str, tuple[Look, Look, str]],
    *,
    lead: Callable[[Path], str] = as_written,
    omit: Callable[[str], bool] = lambda _name: False,
    keep: Collection[str] = (),
    cow: bool = False,
) -> Mirrored:
    """Make ``place`` equal to ``source``.

    Args:
        source: A real folder; only read.
        place: Stands or not; whatever else stands there is removed.
        known: What an earlier call returned for this folder.
        lead: Where the copy of a symlink of the source is to lead.
        omit: Names at the top that are left out.
        keep: Names at the top of ``place`` that are none of the source's business.
        cow: Share blocks where possible.

    Raises:
        OSError: The file system refused; the next call continues.
    """
    mirrored, digest = Mirrored(), hashlib.sha256()
    _mirror(_Work(source, place, known, lead, cow, mirrored, digest.update), "", omit, frozenset(keep))
    mirrored.digest = digest.hexdigest()
    return mirrored


def look_again(mirrored: Mirrored, place: Path) -> Known:
    """Complete what is known of the folder, once the copied files no longer change."""
    for path in mirrored.fresh:
        of_source, _, content = mirrored.known[path]
        mirrored.known[path] = (of_source, look(os.lstat(place / path)), content)
    return mirrored.known


def swapped(known: Known) -> Known:
    """What is known of the same two folders the other way round."""
    return {path: (copy, source, content) for path, (source, copy, content) in known.items()}


def look(info: os.stat_result) -> Look:
    """How a file looks without reading it."""
    return [info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]


def is_racy(look: Look, stored_at_ns: int) -> bool:
    """Whether a file changed too shortly before its look was stored for the look to prove anything."""
    return look[3] >= stored_at_ns - RACY_NS


@dataclass(frozen=True)
class _Work:
    source: Path
    place: Path
    known: Mapping[str, tuple[Look, Look, str]]
    lead: Callable[[Path], str]
    cow: bool
    mirrored: Mirrored
    digest: Callable[[bytes], None]

    def say(self, *words: str) -> None:
        self.digest("\0".join(words).encode(errors="surrogateescape") + b"\n")


def _mirror(work: _Work, folder: str, omit: Callable[[str], bool], keep: frozenset[str]) -> None:
    source, place = work.source / folder, work.place / folder
    if place.is_symlink() or not place.is_dir():
        remove(place)
        place.mkdir(parents=not folder)
    mode = stat.S_IMODE(source.stat().st_mode) & 0o777 | stat.S_IRWXU
    if stat.S_IMODE(place.stat().st_mode) != mode:
        place.chmod(mode)
    entries = [entry for entry in _entries(source) if not omit(entry.name) and entry.name not in keep]
    names = {entry.name for entry in entries} | keep
    for name in [entry.name for entry in sorted_entries(place) if entry.name not in names]:
        remove(place / name)
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        try:
            if entry.is_symlink():
                _link(work, path)
            elif entry.is_dir(follow_symlinks=False):
                _mirror(work, path, lambda _name: False, frozenset())
            else:
                _file(work, path, entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            # The source may be in use: what vanished since it was listed is no part of the copy. Else it is a fault.
            if os.path.lexists(entry.path):
                raise
            remove(work.place / path)


def _entries(source: Path) -> Iterator[os.DirEntry[str]]:
    """What is copied: files, symlinks and folders, but no checkout."""
    for entry in sorted_entries(source):
        if entry.name in NEVER or not (entry.is_symlink() or entry.is_dir() or entry.is_file()):
            continue
        if entry.is_symlink() or not entry.is_dir() or not Path(entry.path, ".git").is_file():
            yield entry


def _link(work: _Work, path: str) -> None:
    text, place = work.lead(work.source / path), work.place / path
    if not place.is_symlink() or as_written(place) != text:
        remove(place)
        place.symlink_to(text)
    work.mirrored.links.append(path)
    work.say("link", path, as_written(work.source / path))


def _file(work: _Work, path: str, info: os.stat_result) -> None:
    place, of_source = work.place / path, look(info)
    known = work.known.get(path)
    if known is not None and list(known[0]) == of_source and _looks(place) == list(known[1]):
        work.mirrored.known[path] = known
        work.say(f"{info.st_mode:o}", path, known[2])
        return
    remove(place)
    copy_file(work.source / path, place, cow=work.cow)
    content = content_of(place)
    work.mirrored.known[path] = (of_source, [], content)
    work.mirrored.fresh.append(path)
    work.say(f"{info.st_mode:o}", path, content)


def _looks(place: Path) -> Look | None:
    try:
        return look(os.lstat(place))
    except OSError:
        return None


def content_of(file: Path) -> str:
    """The SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
