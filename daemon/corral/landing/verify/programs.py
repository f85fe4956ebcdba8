"""The programs that shell commands name: which file each is, and which version it says it is.

A green run says nothing about the same tree once its compiler, its interpreter or its test runner is another. A program is
asked for its ``--version`` once, outside of the repository, and again when its file has changed, or after :data:`AGAIN`: the
file of a program that only chooses another one (rustup's ``cargo``, the shims of pyenv and asdf) stays the same.
"""

from __future__ import annotations

import os
import posixpath
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from corral.core.redaction import redact
from corral.runners.process import signal_each, survivors
from corral.runners.tags import PROJECT_MARK, VERIFICATION_MARK, tagging

LIMIT_S = 5.0
"""Seconds in which all programs that are asked together must have answered."""
AGAIN = timedelta(minutes=10)
_MOST_ANSWERS = 5
"""Different answers of one unchanged file after which it is not asked any more: its size and date speak for it."""
_MOST_OUTPUT = 64 * 1024
_LONGEST_VERSION = 200

_KEYWORDS = frozenset(
    ["!", "{", "}", "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "esac", "time"]
)
"""Words of the shell after which, or instead of which, a command begins."""
_HEADS = frozenset(["for", "case", "select", "function"])
"""Words of the shell after which no command begins before the next separator."""
_BUILTINS = frozenset(
    [
        ".",
        ":",
        "[",
        "[[",
        "alias",
        "bg",
        "break",
        "cd",
        "continue",
        "declare",
        "echo",
        "eval",
        "exit",
        "export",
        "false",
        "fc",
        "fg",
        "getopts",
        "hash",
        "jobs",
        "kill",
        "let",
        "local",
        "popd",
        "printf",
        "pushd",
        "pwd",
        "read",
        "readonly",
        "return",
        "set",
        "shift",
        "shopt",
        "source",
        "test",
        "times",
        "trap",
        "true",
        "type",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "wait",
    ]
)
_WRAPPERS = frozenset(["command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo", "timeout", "xargs"])
"""Programs, and words of the shell, that run the command which they are given."""
_SHELLS = frozenset(["sh", "bash", "dash", "ksh", "zsh"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_OPERATORS = "();<>|&\n`"
_AMOUNT = re.compile(r"[\d.]+[smhd]?")
_NO_NAME = re.compile(r"[$*?\[\]{}#~\\]")


@dataclass(frozen=True)
class Program:
    """A program that was looked up.

    Attributes:
        name: As a command names it.
        path: The file that this name finds; None: there is none.
        version: The first line of its ``--version``; None: it said none.
        mark: Tells its file from another one: its real place and, where it says no version, its size and date.
    """

    name: str
    path: str | None
    version: str | None
    mark: str = ""


_Key = tuple[str, int, int, int]


@dataclass
class _Answer:
    """The last version that a file reported, when, and how often it had reported another one."""

    version: str | None
    at: datetime
    changes: int = 0


class Programs:
    """Looks programs up, and caches their versions. Thread-safe.

    What is remembered is steady: a program that does not answer this time has not changed, and one that never answers the same
    must not keep what it verifies from landing.
    """

    def __init__(self) -> None:
        self._answers: dict[_Key, _Answer] = {}

    def look_up(
        self, names: Iterable[str], env: Mapping[str, str], now: datetime, within: Path | None = None
    ) -> list[Program]:
        """Find each program, and ask those that have not been asked yet.

        Args:
            names: As :func:`named` gives them.
            env: The whole environment in which they are asked; its PATH finds them.
            within: A worktree whose own programs are not asked: they are code that is to be verified, or its dependencies.
        """
        paths = {name: _find(name, env) for name in dict.fromkeys(names)}
        keys = {path: key for path in paths.values() if path is not None and (key := _key(path)) is not None}
        own = {path for path in keys if within is not None and Path(path).is_relative_to(within)}
        due = [path for path, key in keys.items() if path not in own and not self._is_known(key, now)]
        for path, version in _ask(due, env).items():
            self._learn(keys[path], version, now)
        return [self._describe(name, path, keys, own) for name, path in paths.items()]

    def _is_known(self, key: _Key, now: datetime) -> bool:
        answer = self._answers.get(key)
        return answer is not None and (answer.changes > _MOST_ANSWERS or abs(now - answer.at) < AGAIN)

    def _learn(self, key: _Key, version: str | None, now: datetime) -> None:
        answer = self._answers.setdefault(key, _Answer(version, now))
        answer.at = now
        if version is not None and version != answer.version:
            answer.version, answer.changes = version, answer.changes + 1
            if answer.changes > _MOST_ANSWERS:
                answer.version = None

    def _describe(self, name: str, path: str | None, keys: Mapping[str, _Key], own: set[str]) -> Program:
        if path is None or path not in keys:
            return Program(name, None, None)
        version = None if path in own else self._answers[keys[path]].version
        real = os.path.realpath(path)
        _, _, changed, size = keys[path]
        return Program(name, path, version, real if version is not None else f"{real} {size} {changed}")


def named(commands: Iterable[str]) -> list[str]:
    """The programs that shell commands name, each once: the first word of each simple command, but no word of the shell.

    What the repository brings (a relative path) is part of its tree, and is not among them. A word that the shell makes only
    when it runs (a variable, a pattern) is not known.
    """
    return list(dict.fromkeys(word for command in commands for word in _first_words(command)))


def _first_words(command: str) -> Iterator[str]:
    is_first, skips_next, runs_text, before = True, False, False, ""
    for token in _tokens(command):
        if token and not token.strip(_OPERATORS):
            skips_next = any(mark in token for mark in "<>")
            if not skips_next:
                is_first, runs_text = True, False
            continue
        if skips_next or (_ASSIGNMENT.match(token) and is_first):
            skips_next = False
            continue
        if runs_text and before.startswith("-") and before.endswith("c"):
            yield from _first_words(token)
            runs_text = False
        before = token
        if not is_first or token in _KEYWORDS:
            continue
        if token in _HEADS:
            is_first = False
            continue
        if token.startswith("-") or _AMOUNT.fullmatch(token):  # of a wrapper
            continue
        base = posixpath.basename(token)
        if base in _WRAPPERS:
            if token not in ("command", "exec"):
                yield token
            continue
        is_first, runs_text = False, base in _SHELLS
        is_own = "/" in token and not token.startswith(("/", "~/"))
        if token and token not in _BUILTINS and not is_own and not _NO_NAME.search(token.removeprefix("~/")):
            yield token


def _tokens(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote is open, perhaps in a comment
        return re.findall(rf"[{re.escape(_OPERATORS)}]+|[^\s{re.escape(_OPERATORS)}]+", command)


def _find(name: str, env: Mapping[str, str]) -> str | None:
    if name.startswith("~/"):
        name = env.get("HOME", "") + name[1:]
    # A relative folder of the PATH is one of the worktree's.
    folders = [folder for folder in env.get("PATH", os.defpath).split(os.pathsep) if folder.startswith("/")]
    return shutil.which(name, path=os.pathsep.join(folders) or "/")


def _key(path: str) -> _Key | None:
    try:
        status = Path(path).stat()
    except OSError:  # gone since
        return None
    return path, status.st_ino, status.st_mtime_ns, status.st_size


def _ask(paths: list[str], env: Mapping[str, str]) -> dict[str, str | None]:
    """Run every program with ``--version``, all at once; returns the versions by path."""
    if not paths:
        return {}
    until = time.monotonic() + LIMIT_S
    with tempfile.TemporaryDirectory(prefix="corral-", ignore_cleanup_errors=True) as place:
        started = [(path, _start(path, place, env)) for path in paths]
        answers = {path: _first_line(process, until) if process is not None else None for path, process in started}
    # A program that ended by itself may have left processes behind.
    marks = {name: env[name] for name in (PROJECT_MARK, VERIFICATION_MARK) if name in env}
    for _path, process in started:
        if process is not None and marks:
            signal_each(survivors(process.pid, marks), signal.SIGKILL)
    return answers


def _start(path: str, place: str, env: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            tagging([path, "--version"], env),
            cwd=place,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:  # not executable after all, or no room: its size and date speak for it
        return None


def _first_line(process: subprocess.Popen[bytes], until: float) -> str | None:
    """The first line that a process prints, if it ends with 0 in time; it is ended with its group otherwise."""
    output = b""
    assert process.stdout is not None
    with process.stdout as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(output) < _MOST_OUTPUT and selector.select(max(0.0, until - time.monotonic())):
            data = os.read(pipe.fileno(), 4096)
            if not data:
                break
            output += data
        try:
            code = process.wait(max(0.05, until - time.monotonic()) if len(output) < _MOST_OUTPUT else 0.05)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None
    line = next((line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()), "")
    text = redact("".join(character for character in line if character.isprintable()))[:_LONGEST_VERSION]
    return text if code == 0 and text else None
