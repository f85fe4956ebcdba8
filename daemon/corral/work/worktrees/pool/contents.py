"""Everything that stands in a worktree, seen through the file system: what git shows and what it does not.

Git shows no empty folders, no sockets, no modes but one bit, and nothing that it ignores. A worktree that is used again
holds the files of its commit and nothing else: :func:`survey` finds what is to be removed and corrected, :func:`seal` and
:func:`is_sealed` tell whether anything was changed since.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Seal = dict[str, list[int]]
"""By folder, relative to the top: mode, and when its entries and itself were last changed, ns."""

_EXECUTABLE = "100755"


@dataclass
class Contents:
    """The result of :func:`survey`; paths are relative to the top.

    Attributes:
        leftovers: Files and folders that are no part of the commit.
        modes: By path, the mode that a file or folder of the commit should have and has not.
        doubts: Why it cannot be used again, one line each.
        size_bytes: Its size on the disk without the leftovers.
    """

    leftovers: list[str] = field(default_factory=list)
    modes: dict[str, int] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    size_bytes: int = 0


def survey(top: Path, tracked: Mapping[str, str], spare: int) -> Contents:
    """Compare a worktree with what it should hold. Folders that could not be entered are made so.

    Args:
        tracked: By path, the modes that git's index names.
        spare: The permission bits that new files do not get (the umask).

    Raises:
        OSError: Something could not be looked at.
    """
    contents, above = Contents(), folders_of(tracked)
    device, number_seen, pending = top.lstat().st_dev, 0, [""]
    while pending:
        folder = pending.pop()
        for path, info in list(_entries(top, folder)):
            is_folder = stat.S_ISDIR(info.st_mode)
            if path in tracked and not is_folder:
                number_seen += 1
                contents.size_bytes += info.st_blocks * 512
                _check(contents, path, info, tracked[path], spare)
            elif is_folder and path in above:
                _set_mode(contents, path, info, 0o777 & ~spare)
                if path in contents.modes:
                    (top / path).chmod(contents.modes.pop(path))
                if info.st_dev != device:
                    contents.doubts.append("a folder in it is on another volume")
                pending.append(path)
            elif path != ".git":
                contents.leftovers.append(path)
    if number_seen != len(tracked):
        contents.doubts.append("files of it were not found under their names")
    return contents


def _check(contents: Contents, path: str, info: os.stat_result, mode: str, spare: int) -> None:
    if stat.S_ISLNK(info.st_mode):
        return
    if info.st_nlink > 1:
        contents.doubts.append("a file in it has a second name (a hard link)")
    _set_mode(contents, path, info, (0o777 if mode == _EXECUTABLE else 0o666) & ~spare)


def _set_mode(contents: Contents, path: str, info: os.stat_result, mode: int) -> None:
    kept_bits = stat.S_IMODE(info.st_mode) & stat.S_ISGID if stat.S_ISDIR(info.st_mode) else 0
    if stat.S_IMODE(info.st_mode) != mode | kept_bits:
        contents.modes[path] = mode | kept_bits


def folders_of(paths: Collection[str]) -> set[str]:
    """Every folder above one of these paths, but the top."""
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def spare_bits(folder: Path) -> int:
    """The permission bits that a file made in ``folder`` now does not get: the umask, read without changing it.

    Raises:
        OSError: No file can be made there.
    """
    probe = folder / "corral-mode"
    probe.unlink(missing_ok=True)
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777))
    try:
        return 0o777 & ~stat.S_IMODE(probe.lstat().st_mode)
    finally:
        probe.unlink()


def seal(top: Path, folders: Collection[str]) -> Seal:
    """Take down how the folders of a worktree look.

    An entry that is made, removed or renamed changes its folder; files of the commit are git's to compare.

    Raises:
        OSError: One is not there.
    """
    return {folder: _look(os.lstat(top / folder)) for folder in ("", *folders)}


def looks(top: Path, path: str) -> Seal:
    """How a file, or a folder with everything in it, looks.

    Raises:
        OSError: It is not there.
    """
    is_folder = stat.S_ISDIR(os.lstat(top / path).st_mode)
    entries = walk(top, path) if is_folder else [(path, os.lstat(top / path))]
    return {inner: _look(info) for inner, info in entries}


def is_sealed(top: Path, taken: Seal) -> bool:
    """Whether everything looks as it did when the seal was taken."""
    try:
        return all(_look(os.lstat(f"{top}/{path}")) == look for path, look in taken.items())
    except OSError:
        return False


def walk(top: Path, path: str) -> Iterator[tuple[str, os.stat_result]]:
    """A folder and everything below it, with how each looks; links are not followed."""
    yield path, os.lstat(top / path)
    pending = [path]
    while pending:
        for inner, info in _entries(top, pending.pop()):
            yield inner, info
            if stat.S_ISDIR(info.st_mode):
                pending.append(inner)


def _look(info: os.stat_result) -> list[int]:
    return [info.st_mode, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]


def _entries(top: Path, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(top / folder) as entries:
        for entry in entries:
            yield f"{folder}/{entry.name}" if folder else entry.name, entry.stat(follow_symlinks=False)
