"""The tool that runs a command in the worktree: bounded in time and output, and nothing of its group survives it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from corral.runners.messages.paths import ToolError

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
