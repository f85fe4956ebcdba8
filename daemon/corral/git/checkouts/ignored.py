"""The files of a checkout that git ignores: found by reading, within limits; nothing is opened, and no link is followed."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from corral.git.checkouts.status import Signature
from corral.git.process.command import Git, open_checkout

MOST_LOOKED_AT = 20_000
"""Maximum number of ignored files in one checkout that are looked at: a large cache costs no more."""


@dataclass(frozen=True)
class Ignored:
    """Ignored files.

    Attributes:
        files: By repository-relative path, those that are to be saved: regular files and symbolic links.
        left_out: The reason for each path that is not.
    """

    files: Mapping[str, Signature] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def survey(top: Path, listed: Sequence[str], rebuilt: Collection[str], brought: Collection[str], most: int) -> Ignored:
    """Find the ignored files that are worth saving, the smallest first.

    Args:
        top: The checkout's top folder.
        listed: What git names as ignored, folders with a trailing slash.
        rebuilt: Patterns of the names of folders that a recipe makes again; they are passed over.
        brought: Repository-relative paths that Corral brought itself; they are passed over.
        most: Bytes of all files together; the largest are left out.
    """
    left_out: dict[str, str] = {}
    sizes: list[tuple[int, str, Signature]] = []
    for path in _walk(top, listed, rebuilt, brought, left_out):
        try:
            info = os.lstat(top / path)
        except OSError as error:
            left_out[path] = error.strerror or "it cannot be looked at"
            continue
        if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
            sizes.append((info.st_size, path, (info.st_mtime_ns, info.st_size, info.st_mode)))
        else:
            left_out[path] = "it is neither a file nor a link"
    chosen, remaining = dict[str, Signature](), most
    for size, path, seen in sorted(sizes):
        if size <= remaining:
            chosen[path] = seen
            remaining -= size
        else:
            left_out[path] = f"{size / 1e6:,.1f} MB: all of it together is more than {most / 1e6:,.0f} MB"
    return Ignored(chosen, left_out)


def _walk(
    top: Path, listed: Sequence[str], rebuilt: Collection[str], brought: Collection[str], left_out: dict[str, str]
) -> Iterator[str]:
    """The files of what is listed, those nearest to the top first, then those in small folders; what is not reached is named."""
    waiting = [(0, path.endswith("/"), len(listed), path) for path in listed]
    heapq.heapify(waiting)
    files = 0
    while waiting:
        depth, is_folder, _, path = heapq.heappop(waiting)
        parts = PurePosixPath(path).parts
        if any(fnmatchcase(part, pattern) for part in parts for pattern in rebuilt) or any(
            path.rstrip("/") == folder or path.startswith(f"{folder}/") for folder in brought
        ):
            continue
        if files == MOST_LOOKED_AT:
            rest = path if is_folder or depth == 0 else f"{PurePosixPath(path).parent}/"
            left_out.setdefault(rest, f"more than {MOST_LOOKED_AT} files are ignored; not all of it was looked at")
            continue
        if not is_folder or (top / path.rstrip("/")).is_symlink():
            files += 1
            yield path.rstrip("/")
            continue
        try:
            with os.scandir(top / path) as scan:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
        except OSError as error:
            left_out[path] = error.strerror or "it cannot be read"
            continue
        if any(name == ".git" for name, _ in entries):
            left_out[path] = "it is another repository"
            continue
        for name, is_inner in entries:
            heapq.heappush(waiting, (depth + 1, is_inner, len(entries), f"{path}{name}{'/' if is_inner else ''}"))


def read(place: Path, seen: Signature) -> tuple[str, bytes, bool]:
    """Read one file or link, never more of it than was seen.

    Returns:
        Git's mode, the content, and whether it is still what was seen.

    Raises:
        OSError: It is gone, cannot be read, or something else stands there.
    """
    assert seen is not None
    size = seen[1]
    if stat.S_ISLNK(seen[2]):
        target = os.fsencode(os.readlink(place))  # noqa: PTH115 - as it is written
        return "120000", target, len(target) == size
    # Not through a link, and not waiting for the other end of what has become a pipe.
    with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no file any more")
        content = file.read(size)
        after = os.fstat(file.fileno())
    same = (after.st_mtime_ns, after.st_size) == seen[:2] and len(content) == size
    return "100755" if seen[2] & stat.S_IXUSR else "100644", content, same


# -- Whether git tracks or ignores a file of a checkout


def is_tracked(path: Path) -> bool | None:
    """Whether git tracks a file in the top folder of a checkout; None if it neither tracks nor ignores it.

    Raises:
        GitFailed: Git cannot tell.
        NotAProject: The folder is not the top of a checkout.
    """
    git = open_checkout(path.parent)
    # Without regard to case: where the file system ignores it, the file has every spelling of its name.
    if git.check("ls-files", "-z", "--", f":(icase,literal,top){path.name}").names:
        return True
    return False if git.run("check-ignore", "--quiet", "--", path.name).ok else None


def ignored(checkout: Git, paths: Iterable[str]) -> set[str]:
    """Those of some repository-relative paths that git ignores in a checkout; a tracked one is none of them.

    Raises:
        GitFailed: Git could not tell.
    """
    checked = checkout.run("check-ignore", "-z", "--stdin", input=os.fsencode("\0".join(paths)))
    if checked.rc > 1 or checked.rc < 0:
        raise checked.failure()
    return set(checked.names)
