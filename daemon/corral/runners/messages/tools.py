"""The six tools: their descriptions for the model, which of them an agent may use, and the call of one."""

from __future__ import annotations

import fnmatch
import os
import re
import selectors
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

# -- The tools that read and change files of the worktree

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


# -- The tool that runs a command in the worktree: bounded in time and output, and nothing of its group survives it

DEFAULT_S = 120
MAX_S = 1800
GRACE_S = 2.0
"""Seconds from SIGTERM to SIGKILL after the time limit."""
_HEAD = 8_000
_TAIL = 20_000
_LOOK_S = 0.05
_CHUNK = 1 << 16
_CHUNKS_AFTER_END = 16


class _BoundedOutput:
    """The beginning and the end of an output of any length."""

    def __init__(self) -> None:
        self.head = self.tail = b""
        self.left_out = 0

    def add(self, data: bytes) -> None:
        free = _HEAD - len(self.head)
        self.head += data[:free]
        tail = self.tail + data[free:]
        self.left_out += max(0, len(tail) - _TAIL)
        self.tail = tail[-_TAIL:]

    def text(self) -> str:
        between = f"\n[{self.left_out} bytes left out]\n".encode() if self.left_out else b""
        return (self.head + between + self.tail).decode(errors="replace")


def run_command(root: Path, environ: Mapping[str, str], command: str, timeout_s: float = DEFAULT_S) -> str:
    """Run a command with ``/bin/sh``; its output and exit code.

    Raises:
        ToolError: It failed, could not be started, or took too long; with its output.
    """
    if not command.strip() or "\0" in command:
        raise ToolError("The command is empty, or contains a NUL.")
    limit_s = min(max(timeout_s, 1), MAX_S)
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=root,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"The command could not be started: {error.strerror}.") from error
    assert process.stdout is not None
    collected = _BoundedOutput()
    try:
        in_time = _follow(process, process.stdout, collected, time.monotonic() + limit_s)
        if not in_time:
            _signal(process, signal.SIGTERM)
            _follow(process, process.stdout, collected, time.monotonic() + GRACE_S)
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()
        with suppress(BlockingIOError):
            collected.add(os.read(process.stdout.fileno(), _TAIL))
        process.stdout.close()
    output = collected.text()
    if not in_time:
        raise ToolError(f"{output}\n[The command was ended after {limit_s:g} s.]")
    if process.returncode != 0:
        raise ToolError(f"{output}\n[The command exited with {process.returncode}.]")
    return output or "[The command succeeded without output.]"


def _follow(process: subprocess.Popen[bytes], pipe: IO[bytes], collected: _BoundedOutput, until: float) -> bool:
    """Read until the leader has ended, True, or until an instant of the monotonic clock, False.

    A process in the background may keep the pipe open: its end is not waited for.
    """
    os.set_blocking(pipe.fileno(), False)
    after_end = 0
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            ended = _has_ended(process)
            data = os.read(pipe.fileno(), _CHUNK) if selector.select(0 if ended else _LOOK_S) else None
            collected.add(data or b"")
            after_end += ended
            if (ended and not data) or after_end > _CHUNKS_AFTER_END:
                return True
            if time.monotonic() >= until:
                return ended
            if data == b"":  # it has closed its output, and works on
                time.sleep(_LOOK_S)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the leader has ended; it is not reaped, so that its group's number stays taken."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the whole group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


Tool = dict[str, Any]

CLAUDE_CODE = {
    "Read": "read_file",
    "Write": "write_file",
    "Edit": "edit_file",
    "MultiEdit": "edit_file",
    "Glob": "list_files",
    "LS": "list_files",
    "Grep": "search",
    "Bash": "run_command",
}
"""The tools of Claude Code that agent definitions name, and their counterparts here."""

_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
_FILE = {"type": "string", "description": "Path of the file, relative to the working directory."}
_FOLDER = {"type": "string", "description": "Folder to look in; default: the working directory."}


def _tool(name: str, description: str, required: Sequence[str], **properties: Mapping[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"name": name, "description": description, "input_schema": schema}


TOOLS: tuple[Tool, ...] = (
    _tool(
        "read_file",
        "Read lines of a text file.",
        ["file_path"],
        file_path=_FILE,
        offset={"type": "integer", "description": "First line, counted from 1."},
        limit={"type": "integer", "description": "Number of lines; default 2000."},
    ),
    _tool("write_file", "Make or replace a file.", ["file_path", "content"], file_path=_FILE, content=_TEXT),
    _tool(
        "edit_file",
        "Replace old_string, which must be in the file exactly once, by new_string.",
        ["file_path", "old_string", "new_string"],
        file_path=_FILE,
        old_string=_TEXT,
        new_string=_TEXT,
    ),
    _tool(
        "list_files",
        "List files by a glob pattern such as `*.py` or `src/**/test_*.py`.",
        [],
        pattern=_TEXT,
        path=_FOLDER,
    ),
    _tool(
        "search",
        "Find the lines that match a regular expression of Python.",
        ["pattern"],
        pattern=_TEXT,
        path=_FOLDER,
        glob={"type": "string", "description": "Only files that match this, such as `*.py`."},
    ),
    _tool(
        "run_command",
        "Run a command with /bin/sh in the working directory. Processes that it leaves in the background are ended.",
        ["command"],
        command=_TEXT,
        timeout_s={**_NUMBER, "description": f"Seconds; default {DEFAULT_S}, at most {MAX_S}."},
    ),
)
NAMES = tuple(str(tool["name"]) for tool in TOOLS)


def allowed(tools: Collection[str] | None, disallowed: Collection[str] | None) -> list[str]:
    """The tools that an agent definition allows; a tool of Claude Code counts as its counterpart here.

    Patterns such as ``Bash(git *)`` cannot be kept here: a tool allowed only by one is not allowed, and one that is
    disallowed by one is disallowed.

    Args:
        tools: Its ``tools``; None: all.
        disallowed: Its ``disallowedTools``.
    """
    permitted = set(NAMES) if tools is None else {_own_name(name) for name in tools}
    refused = {_own_name(name.partition("(")[0].strip()) for name in disallowed or ()}
    return [name for name in NAMES if name in permitted and name not in refused]


def _own_name(name: str) -> str:
    return CLAUDE_CODE.get(name, name)


class Toolbox:
    """Executes calls of tools in a worktree.

    Args:
        root: The worktree.
        environ: The environment of its commands.
        names: The tools that may be called.
    """

    def __init__(self, root: Path, environ: Mapping[str, str], names: Collection[str]) -> None:
        confined = Confined(root)
        self.definitions = [tool for tool in TOOLS if tool["name"] in names]
        of_files: tuple[Callable[..., str], ...] = (read_file, write_file, edit_file, list_files, search)
        functions = {function.__name__: partial(function, confined) for function in of_files}
        functions["run_command"] = partial(run_command, confined.root, environ)
        self._calls = {name: call for name, call in functions.items() if name in names}

    def call(self, name: str, arguments: object) -> tuple[str, bool]:
        """Call a tool; its answer for the model, and whether that is an error."""
        tool = next((tool for tool in self.definitions if tool["name"] == name), None)
        if tool is None:
            return f"There is no tool {name}; there are: {', '.join(self._calls)}.", True
        try:
            return self._calls[name](**_check_arguments(tool, arguments)), False
        except ToolError as error:
            return str(error), True
        except OSError as error:
            return f"{name}: {os.strerror(error.errno or 0)}", True


_KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}


def _check_arguments(tool: Tool, arguments: object) -> dict[str, Any]:
    """The arguments of a call, as the tool's schema wants them. Raises ToolError if they are not."""
    schema = tool["input_schema"]
    if not isinstance(arguments, dict):
        raise ToolError("The input is no object.")
    if missing := [name for name in schema["required"] if name not in arguments]:
        raise ToolError(f"The input lacks {', '.join(missing)}.")
    if unknown := [str(name) for name in arguments if name not in schema["properties"]]:
        raise ToolError(f"The input has an unknown field {', '.join(unknown)[:200]}.")
    for name, value in arguments.items():
        kind = schema["properties"][name]["type"]
        if not isinstance(value, _KINDS[kind]) or isinstance(value, bool):
            raise ToolError(f"{name} must be of the type {kind}.")
    return arguments
