"""A command on a terminal of its own, with the size that the terminal says and no variable repeats."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[2] / "daemon"


class Screen(NamedTuple):
    """Everything that a command wrote to its terminal, what it wrote to stdout where that was none, its exit code."""

    written: str
    stdout: str
    code: int

    @property
    def lines(self) -> list[str]:
        return self.written.replace("\r\n", "\n").splitlines()


def on_terminal(
    argv: list[str],
    *,
    cwd: Path,
    columns: int = 80,
    stdout: bool = True,
    typed: str = "",
    asked: Callable[[], object] | None = None,
    **env: str,
) -> Screen:
    """Run ``python ARGV`` with its stderr, and its stdout unless that is a pipe, on a terminal.

    Args:
        typed: Keys that are pressed in advance; without any its standard input is empty and no terminal.
        asked: Called when the command has asked; only then they are pressed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, *argv],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(SOURCE), "TERM": "xterm", **env},
        stdin=theirs if typed else subprocess.DEVNULL,
        stdout=theirs if stdout else subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    if asked is None:
        os.write(ours, typed.encode())
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
        if asked is not None and re.search(rb"\[(Y/n|y/N)\]", written):
            asked()
            asked = None
            os.write(ours, typed.encode())
    os.close(ours)
    rest = process.communicate(timeout=60)[0] or b""
    return Screen(written.decode("utf-8", "replace"), rest.decode(), process.returncode)
