"""The tools that read and change files of the worktree."""

from __future__ import annotations

import fnmatch
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

MAX_FILE = 2 * 2**20
"""Bytes of a file that is read, written or searched."""
MAX_ANSWER = 30_000
"""Characters of a tool's answer."""
MAX_LISTED = 500
MAX_VISITED = 50_000
"""Maximum number of files that one call visits."""
MAX_LINE = 500
SEARCH_S = 20.0


def read_file(files: Confined, file_path: str, offset: int = 1, limit: int = 2000) -> str:
    """Lines ``offset`` to ``offset + limit - 1`` of a file, counted from 1."""
    lines = _text(files, file_path).splitlines(keepends=True)
    if offset < 1 or limit < 1:
        raise ToolError("offset and limit count from 1.")
    part = lines[offset - 1 : offset - 1 + limit]
    shown = "".join(part)[:MAX_ANSWER]
    if len(shown) < sum(map(len, part)) or offset > 1 or offset - 1 + limit < len(lines):
        return f"{shown}\n[lines {offset} to {offset + shown.count(chr(10))} of {len(lines)}; use offset and limit]"
    return shown or "[The file is empty.]"


def write_file(files: Confined, file_path: str, content: str) -> str:
    """Make or replace a file, with its folders."""
    _store(files, file_path, content)
    return f"Wrote {file_path}."


def edit_file(files: Confined, file_path: str, old_string: str, new_string: str) -> str:
    """Replace a text that is in the file exactly once."""
    if not old_string or old_string == new_string:
        raise ToolError("old_string is empty, or the same as new_string.")
    files.writable(file_path)
    text = _text(files, file_path)
    if (count := text.count(old_string)) != 1:
        raise ToolError(
            f"old_string is {count} times in {file_path}; it must be there exactly once: give more context."
        )
    _store(files, file_path, text.replace(old_string, new_string))
    return f"Edited {file_path}."


def list_files(files: Confined, pattern: str = "*", path: str = ".") -> str:
    """The files below a folder whose path or name matches a pattern."""
    names: list[str] = []
    for file in _walk(files, path):
        name = files.shown(file)
        if fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(file.name, pattern) or _below(name, pattern):
            names.append(name)
        if len(names) == MAX_LISTED:
            names.append(f"[more than {MAX_LISTED}; use a narrower pattern]")
            break
    return "\n".join(names) or "[No file matches.]"


def search(files: Confined, pattern: str, path: str = ".", glob: str = "*") -> str:
    """The lines that a regular expression matches, as ``file:line: text``."""
    try:
        expression = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(f"The pattern is no regular expression: {error}") from error
    matches: list[str] = []
    with _at_most(SEARCH_S):
        for file in _walk(files, path):
            name = files.shown(file)
            if not (fnmatch.fnmatch(name, glob) or fnmatch.fnmatch(file.name, glob)):
                continue
            for number, line in enumerate(_lines(file), start=1):
                if expression.search(line):
                    matches.append(f"{name}:{number}: {line}")
                if len(matches) == MAX_LISTED or sum(map(len, matches[-1:])) > MAX_ANSWER:
                    return "\n".join([*matches, f"[more than {MAX_LISTED}; use a narrower pattern]"])[:MAX_ANSWER]
    return "\n".join(matches)[:MAX_ANSWER] or "[Nothing matches.]"


def _below(name: str, pattern: str) -> bool:
    """Whether ``**/`` may stand for no folder at all."""
    return pattern.startswith("**/") and fnmatch.fnmatch(name, pattern[3:])


def _text(files: Confined, file_path: str) -> str:
    path = files.readable(file_path)
    try:
        if path.stat().st_size > MAX_FILE:
            raise ToolError(f"{file_path} is larger than {MAX_FILE // 2**20} MiB; use run_command.")
        return path.read_bytes().decode()
    except OSError as error:
        raise ToolError(f"{file_path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ToolError(f"{file_path} is not a text in UTF-8.") from error


def _store(files: Confined, file_path: str, content: str) -> None:
    path = files.writable(file_path)
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise ToolError("The content cannot be encoded as UTF-8.") from error
    if len(data) > MAX_FILE:
        raise ToolError(f"The content is larger than {MAX_FILE // 2**20} MiB.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ToolError(f"{file_path}: {error.strerror}") from error


def _walk(files: Confined, root: str) -> Iterator[Path]:
    """Regular files below a folder, in order, without Git's own and without following links."""
    top = files.resolve(root)
    if top.is_file():
        yield top
        return
    if not top.is_dir():
        raise ToolError(f"{root}: there is no such folder.")
    visited = 0
    for folder, below, names in os.walk(top):
        below[:] = sorted(name for name in below if name != ".git")
        for name in sorted(names):
            visited += 1
            if visited > MAX_VISITED:
                return
            path = Path(folder, name)
            if name != ".git" and path.is_file() and not path.is_symlink():
                yield path


def _lines(file: Path) -> Iterator[str]:
    try:
        if file.stat().st_size > MAX_FILE:
            return
        data = file.read_bytes()
    except OSError:
        return
    if b"\0" not in data:
        yield from (line[:MAX_LINE] for line in data.decode(errors="replace").splitlines())


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End a search that takes too long: some expressions need time that doubles with each character."""

    def late(number: int, frame: FrameType | None) -> None:
        raise ToolError(f"The search took longer than {seconds:g} s; use a simpler pattern or a folder.")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -- Paths that a model names: inside of its worktree, and nowhere else.
#
# This keeps a model from mistakes. Its commands are not confined: they may do what any worker's command may.

MAX_PATH = 4096


class ToolError(Exception):
    """A tool could not do what it was asked; the model is told why."""


class Confined:
    """The files of a worktree.

    Args:
        root: The worktree.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def resolve(self, name: str) -> Path:
        """The path behind every link.

        Raises:
            ToolError: It is none, or outside of the worktree.
        """
        if not name or "\0" in name or len(name) > MAX_PATH:
            raise ToolError("The path is empty, too long, or contains a NUL.")
        try:
            resolved = (self.root / name).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
            raise ToolError(f"{name}: {error}") from error
        if resolved != self.root and self.root not in resolved.parents:
            raise ToolError(f"{name} is outside of the working directory {self.root}.")
        return resolved

    def readable(self, name: str) -> Path:
        """A regular file; raises ToolError if it is none."""
        path = self.resolve(name)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from error
        if not stat.S_ISREG(mode):
            raise ToolError(f"{name} is a folder; use list_files." if stat.S_ISDIR(mode) else f"{name} is no file.")
        return path

    def writable(self, name: str) -> Path:
        """A regular file, or where one can be made; not Git's own. Raises ToolError if it is neither."""
        path = self.resolve(name)
        parts = (*Path(os.path.normpath(name)).parts, *path.relative_to(self.root).parts)
        if any(part.casefold() == ".git" for part in parts):
            raise ToolError(f"{name} belongs to Git; use run_command with git.")
        if path.exists() and not path.is_file():
            raise ToolError(f"{name} is no regular file.")
        return path

    def shown(self, path: Path) -> str:
        """A path as the model gets it: relative to the worktree."""
        return path.relative_to(self.root).as_posix()
