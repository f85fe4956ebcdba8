"""The guard's part in git's pre-commit hook: put in, found, and taken out again; whatever else is there stays as it is.

A shell script gets a block behind its first line, so that its name, folder and arguments stay what they were. Any other hook (a
program, a link, one that is switched off) is renamed, and called by a script in its place. Afterwards everything is exactly as
it was before.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from pathlib import Path

from corral.core.errors import Conflict
from corral.faces.cli.project.own_files import replace_file
from corral.git.process.command import Git

NAME = "pre-commit"
SAVED = "pre-commit.before-corral"
_BEGIN = "# >>> corral guard: `corral guard remove` takes this out >>>\n"
_END = "# <<< corral guard <<<\n"
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_BLOCK = re.compile(re.escape(_BEGIN.encode()) + rb".*?" + re.escape(_END.encode()), re.DOTALL)
_CALLS_SAVED = f"""before="$(dirname "$0")/{SAVED}"
if [ -x "$before" ]; then exec "$before" "$@"; fi
"""


def configured_folder(checkout: Git) -> str | None:
    """The user's ``core.hooksPath``, with ``~`` expanded; None: not set. The one of Corral's own git does not count."""
    result = checkout.run("config", "--show-scope", "--type=path", "--get-all", "core.hooksPath")
    values = [line.partition("\t") for line in result.text.splitlines()] if result.ok else []
    return next((value for scope, _, value in reversed(values) if scope != "command"), None)


def hook_file(checkout: Git) -> Path:
    """Where git looks for the pre-commit hook of a checkout."""
    top = checkout.work_tree or checkout.git_dir
    folder = configured_folder(checkout)
    return (top / folder if folder else checkout.common_dir / "hooks") / NAME


def is_in(file: Path) -> bool:
    """Whether the guard is part of this hook, and git runs it."""
    return _BLOCK.search(_content(file)) is not None and os.access(file, os.X_OK)


def put_in(file: Path) -> None:
    """Make the guard a part of this hook; nothing changes if it is.

    Raises:
        Conflict: There is a saved hook already, which would be overwritten.
    """
    if is_in(file):
        return
    if not os.path.lexists(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_program(file, f"#!/bin/sh\n{_block()}".encode())
        return
    content = _content(file)
    first, newline, rest = content.partition(b"\n")
    if newline and _is_shell(first) and os.access(file, os.X_OK) and not file.is_symlink():
        replace_file(file, first + newline + _block().encode() + rest)
        return
    saved = file.with_name(SAVED)
    if os.path.lexists(saved):
        raise Conflict(
            f"{saved} exists already.",
            cause="The hook that is there is kept under this name, and called; what has the name is not overwritten.",
            remedy="Move it away, and try again.",
        )
    file.rename(saved)
    _write_program(file, f"#!/bin/sh\n{_block()}{_CALLS_SAVED}".encode())


def take_out(file: Path) -> bool:
    """Take the guard out of this hook; returns whether it was in.

    Raises:
        Conflict: The script that calls the former hook was changed since.
    """
    content = _content(file)
    rest = _BLOCK.sub(b"", content)
    if rest == content:
        return False
    saved = file.with_name(SAVED)
    if rest == f"#!/bin/sh\n{_CALLS_SAVED}".encode():
        if os.path.lexists(saved):
            saved.replace(file)
        else:
            file.unlink()
    elif _CALLS_SAVED.encode() in rest:
        raise Conflict(
            f"{file} was changed since the guard was put in.",
            cause=f"It calls the former hook, {SAVED}.",
            remedy=f"Put what you added into {SAVED}, and rename that to {NAME}.",
        )
    elif rest == b"#!/bin/sh\n":
        file.unlink()
    else:
        replace_file(file, rest)
    return True


def _is_shell(first_line: bytes) -> bool:
    """Whether a script's first line names a shell whose language the block is written in."""
    if not first_line.startswith(b"#!") or first_line.endswith(b"\r"):
        return False
    words = [Path(os.fsdecode(word)).name for word in first_line.removeprefix(b"#!").split()]
    return next((word for word in words if word not in ("env", "-S")), "") in _SHELLS


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _block() -> str:
    """The block of shell script; it fails only if the guard refuses, not without a daemon or without Corral."""
    script = Path(sys.argv[0])
    if script.name == "corral" and script.is_absolute() and os.access(script, os.X_OK):
        program = [str(script)]
    else:
        program = [sys.executable, "-m", "corral"]
    test, call = shlex.quote(program[0]), shlex.join(program)
    # From another folder: a package called `corral` in the repository is not to be run in its place.
    return (
        f'{_BEGIN}if [ -x {test} ]; then\n  corral_top="$(pwd)"\n'
        f'  (cd / && {call} -C "$corral_top" guard check) || [ $? -ne {Conflict.exit_code} ] || exit 1\nfi\n{_END}'
    )


def _write_program(file: Path, content: bytes) -> None:
    replace_file(file, content)
    file.chmod(file.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
