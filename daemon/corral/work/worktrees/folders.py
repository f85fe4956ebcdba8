"""How one folder of the main checkout gets into a worktree: cloned, linked, relocated.

Nothing here writes outside ``target``, follows a symlink of the source, or copies a ``.git`` or a nested worktree.
Called by :mod:`corral.work.worktrees.provision` alone, which builds aside and renames in.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import quote

from corral.work.worktrees.recipes import Folder

_FICLONE = 0x40049409
"""The Linux ioctl that makes one file share another's blocks (linux/fs.h)."""

_CANNOT_SHARE = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS}

NEVER = frozenset({".git", ".corral"})
"""Names that are never copied, wherever they stand."""

_SHEBANG_LIMIT = 127
"""Bytes of a ``#!`` line that every supported kernel reads."""

_RELOCATED = (
    "pyvenv.cfg",
    "bin/*",
    "lib/*/site-packages/*.pth",
    "lib/*/site-packages/*.egg-link",
    "lib/*/site-packages/*editable*",
    "lib/*/site-packages/*.dist-info/direct_url.json",
)
"""Files of a virtual environment that hold absolute paths of it, or of a project that is installed editable."""


def share_blocks(source: Path, target: Path) -> bool:
    """Make ``target`` a copy-on-write clone of the file ``source``; False, and no target, where the file system cannot."""
    if sys.platform == "darwin":
        clonefile = ctypes.CDLL(None, use_errno=True).clonefile
        return bool(clonefile(os.fsencode(source), os.fsencode(target), 0) == 0)
    if sys.platform != "linux":
        return False
    with source.open("rb") as read, target.open("xb") as write:
        try:
            fcntl.ioctl(write, _FICLONE, read.fileno())
        except OSError as refused:
            target.unlink()
            if refused.errno not in _CANNOT_SHARE:
                raise
            return False
    return True


def copy_file(source: Path, target: Path, *, cow: bool) -> int:
    """Copy one regular file with its mode and time.

    Args:
        source: A regular file.
        target: Does not exist yet.
        cow: Try to share the blocks first.

    Returns:
        Bytes of disk that the copy takes.
    """
    info = source.stat(follow_symlinks=False)
    shared = cow and share_blocks(source, target)
    if not shared:
        shutil.copyfile(source, target)
    target.chmod(stat.S_IMODE(info.st_mode) & 0o777)
    # Compilers and build tools compare times: a copy that looks new would be built again.
    os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))
    return 0 if shared else info.st_size


def clone(source: Path, target: Path, place: Path, *, cow: bool, root: Path | None = None) -> int:
    """Copy a folder as it is, symlinks as symlinks.

    Args:
        source: A real folder of the main checkout.
        target: Where it is built; does not exist yet.
        place: Where the copy of ``root`` will finally stand: absolute symlinks into ``root`` are led there.
        cow: Share blocks where possible.
        root: The folder the whole copy began with.

    Returns:
        Bytes of disk that the copy takes.
    """
    root = root or source
    taken = 0
    target.mkdir()
    for entry in sorted_entries(source):
        is_checkout = entry.is_dir(follow_symlinks=False) and Path(entry.path, ".git").is_file()
        if entry.name in NEVER or is_checkout:
            continue
        copy = target / entry.name
        try:
            if entry.is_symlink():
                copy.symlink_to(_moved(Path(entry.path).readlink(), root, place))
            elif entry.is_dir(follow_symlinks=False):
                taken += clone(Path(entry.path), copy, place, cow=cow, root=root)
            elif entry.is_file(follow_symlinks=False):
                taken += copy_file(Path(entry.path), copy, cow=cow)
        except FileNotFoundError:
            # The main checkout is in use: what vanished since it was listed is no part of the copy. Anything else missing
            # is a fault.
            if os.path.lexists(entry.path):
                raise
    # Read-only folders could not be removed with the worktree.
    target.chmod(stat.S_IMODE(source.stat().st_mode) & 0o777 | stat.S_IRWXU)
    return taken


def link(source: Path, target: Path, folder: Folder, lead: Callable[[Path], Path], *, cow: bool) -> int:
    """Build a real folder whose children are symlinks to the source's children.

    The folder itself is real so that an ignore pattern with a trailing slash matches it. Files are copied, not linked:
    package managers rewrite theirs in place, and would rewrite the main checkout's.

    Args:
        source: A real folder of the main checkout.
        target: Where it is built; does not exist yet.
        folder: Its private and its excluded parts.
        lead: Where the link for one child shall lead.
        cow: Share blocks where possible.

    Returns:
        Bytes of disk that the copies take.
    """
    taken = 0
    target.mkdir()
    for entry in sorted_entries(source):
        child, place = Path(entry.path), target / entry.name
        if entry.name in NEVER or _any(entry.name, folder.omit):
            continue
        if entry.is_file(follow_symlinks=False):
            taken += copy_file(child, place, cow=cow)
        elif entry.is_dir(follow_symlinks=False) and _any(entry.name, folder.private):
            taken += clone(child, place, child, cow=cow)
        elif entry.is_dir(follow_symlinks=False) and entry.name.startswith("@"):
            # A scope is a folder of packages, and one of them may be a package of this repository.
            taken += link(child, place, folder, lead, cow=cow)
        elif entry.is_symlink() or entry.is_dir():
            place.symlink_to(lead(child))
    return taken


def relocate(
    venv: Path, place: Path, old_place: Path, main: Path, worktree: Path, only: Collection[str] | None = None
) -> None:
    """Make a copied virtual environment belong to the worktree instead of the main checkout.

    Args:
        venv: The copy, private, wherever it was built.
        place: Where it will finally stand.
        old_place: The folder that it was copied from.
        main: The main checkout, whose path the files name.
        worktree: The path that replaces it.
        only: The files, relative to ``venv``, that were not rewritten yet; None: all.
    """
    spelled = {form for old in _names_of(main, old_place) for form in (os.fsencode(old), os.fsencode(quote(old)))}
    # Whole names only: /src/app is neither /src/app2 nor /data/src/app. One pass: the new path may contain the old one.
    names = b"|".join(re.escape(name) for name in sorted(spelled, key=len, reverse=True))
    old_name = re.compile(rb"(file://)?(?<![\w.-])(?:" + names + rb")(?![\w.-])")
    path, url = os.fsencode(worktree), b"file://" + os.fsencode(quote(str(worktree)))
    for file in sorted({file for glob in _RELOCATED for file in venv.glob(glob)}):
        if only is not None and file.relative_to(venv).as_posix() not in only:
            continue
        if file.is_symlink() or not file.is_file() or _is_binary(file):
            continue
        before = file.read_bytes()
        after = old_name.sub(lambda match: url if match[1] else path, before)
        if after != before:
            file.write_bytes(_runnable(after, place))


def _names_of(main: Path, old_place: Path) -> set[str]:
    """Every path under which the environment may know the main checkout."""
    names = {str(main)}
    # Made through a symlink (/tmp on macOS, a linked home), it recorded that name, which `main`, resolved, no longer has.
    activate = old_place / "bin" / "activate"
    if activate.is_file():
        text = activate.read_text(encoding="utf-8", errors="surrogateescape")
        tail = "/" + old_place.relative_to(main).as_posix()
        for recorded in re.findall(r"""^\s*(?:export )?VIRTUAL_ENV=['"]?(/[^'"\n]+)""", text, re.MULTILINE):
            if recorded.endswith(tail) and Path(recorded).resolve() == old_place:
                names.add(recorded.removesuffix(tail))
    return names


def _is_binary(file: Path) -> bool:
    with file.open("rb") as opened:
        return b"\0" in opened.read(1024)


def _runnable(text: bytes, place: Path) -> bytes:
    """The script with a first line that the kernel accepts: short, and without spaces in the interpreter's path."""
    first, newline, rest = text.partition(b"\n")
    interpreter = first[2:].strip()
    inside = interpreter.startswith(os.fsencode(place) + b"/bin/")
    if not first.startswith(b"#!") or not inside or (len(first) <= _SHEBANG_LIMIT and b" " not in interpreter):
        return text
    # In this case pip writes a shell line that Python reads as a string.
    return b"#!/bin/sh\n'''exec' \"" + interpreter + b'" "$0" "$@"\n' + b"' '''" + newline + rest


def _moved(link_to: Path, root: Path, place: Path) -> Path:
    return place / link_to.relative_to(root) if link_to.is_absolute() and link_to.is_relative_to(root) else link_to


def sorted_entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder, by name."""
    with os.scandir(folder) as entries:
        yield from sorted(entries, key=lambda entry: entry.name)


def remove(path: Path) -> None:
    """Remove whatever stands there, a symlink as a symlink."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


# -- Files of a main checkout that may be brought into a worktree: found by reading, without entering what is closed.
#
# Closed are git's own folder, Corral's, and every nested checkout (a worktree inside the main one, a submodule):
# copying worktrees into worktrees fills a disk.

_CLOSED = ".claude/worktrees"


def find_folders(main: Path, pattern: str, dependency_folders: frozenset[str]) -> list[str]:
    """Real folders that match a recipe's pattern, relative to ``main``.

    Args:
        pattern: A relative path; ``*`` stands for part of one visible name.
        dependency_folders: Names of folders that are not entered: what recipes bring as a whole.
    """
    folders = [""]
    parts = pattern.split("/")
    for part in parts[:-1]:
        folders = [
            path
            for path in _children(main, folders, part)
            if _may_enter(path, dependency_folders) and not os.path.lexists(f"{main}/{path}/.git")
        ]
    return list(_children(main, folders, parts[-1]))


def walk_files(main: Path, dependency_folders: frozenset[str], folder: str = "") -> Iterator[str]:
    """Every file and symlink below ``folder``, relative to ``main``, that is in no closed folder and in none of these names."""
    entries = list(sorted_entries(main / folder))
    if folder and any(entry.name == ".git" for entry in entries):
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir(follow_symlinks=False):
            if _may_enter(path, dependency_folders):
                yield from walk_files(main, dependency_folders, path)
        elif entry.is_symlink() or entry.is_file():
            yield path


def what_is_installed(folder: Path, watch: tuple[str, ...]) -> str:
    """A digest that changes when something is installed into or removed from a dependency folder.

    Args:
        folder: The dependency folder.
        watch: Globs inside it, ``.`` for itself: the folders whose listing says what is installed.
    """
    digest = hashlib.sha256()
    for pattern in watch:
        for listed in sorted(folder.glob(pattern)) if pattern != "." else [folder]:
            text = "".join(sorted(map(_said_by, sorted_entries(listed))))
            digest.update(text.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _said_by(entry: os.DirEntry[str]) -> str:
    if entry.is_file(follow_symlinks=False):
        # The lock files of package managers, and .pth files. A .gitignore in there says nothing about packages.
        return "" if entry.name == ".gitignore" else f"{entry.name} {entry.stat(follow_symlinks=False).st_mtime_ns}\n"
    # Not the times of folders: an import writes __pycache__ into them.
    return "" if entry.name.startswith((".", "__pycache__")) else f"{entry.name}\n"


def _children(main: Path, parents: list[str], part: str) -> Iterator[str]:
    """Real folders named ``part`` in each of the parents."""
    for parent in parents:
        if "*" in part:
            folders = [entry.name for entry in sorted_entries(main / parent) if entry.is_dir(follow_symlinks=False)]
            names = [name for name in folders if not name.startswith(".") and fnmatch(name, part)]
        else:
            place = main / parent / part
            names = [part] if place.is_dir() and not place.is_symlink() else []
        yield from (f"{parent}/{name}" if parent else name for name in names)


def _may_enter(path: str, dependency_folders: frozenset[str]) -> bool:
    name = path.rpartition("/")[2]
    return name not in NEVER and name not in dependency_folders and path != _CLOSED
