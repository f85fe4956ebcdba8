"""Start a git, feed it, read it, end it. Only ``command.Git`` calls this, and ``remote.reading`` for what is no git.

GitPython starts it, with exactly the variables given here and nothing of the daemon's (docs/decisions/0001).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import IO

from corral.core.errors import GitFailed
from corral.git.process.bounds import LOOK_S, Bounds

OUTPUT_CAP = 256 * 1024 * 1024
"""Maximum size of standard output, or of standard error, in bytes; beyond it git is killed."""
NOT_FOUND = 127
"""The exit code where there is no such program, as a shell has it."""
_CHUNK = 1 << 16
_GRACE_S = 2.0


@dataclass(frozen=True)
class Finished:
    """How a process ended; ``rc`` is negative for a signal, ``cut`` says which bound ended it (else empty)."""

    rc: int
    stdout: bytes
    stderr: bytes
    cut: str


@cache
def _starter() -> Callable[..., subprocess.Popen[bytes]]:
    # Imported on first use: the import itself runs `git version`, and fails if git is not installed.
    try:
        from git.cmd import safer_popen
    except ImportError as error:
        raise GitFailed(
            "Cannot run git.",
            cause="No working `git` is on the PATH of the daemon.",
            remedy="Install git 2.38 or newer, then `corral daemon restart`.",
        ) from error
    return safer_popen


def execute(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: bytes | None,
    timeout_s: float,
    cap: int = OUTPUT_CAP,
    bounds: Bounds | None = None,
) -> Finished:
    """Run one command in its own session (and so process group), until it ends or is killed.

    Args:
        argv: The program, found on the PATH in ``env``, and its arguments.
        env: The whole environment; nothing is added.
        stdin: Bytes to feed, or None for ``/dev/null``.
        timeout_s: Seconds until the whole group is killed.
        cap: Bytes of output until the whole group is killed.
        bounds: What it may use besides.
    """
    limited = argv if bounds is None else bounds.limited(argv)
    try:
        process = _starter()(
            limited,
            env=env,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        return Finished(NOT_FOUND, b"", str(error).encode("utf-8", "surrogateescape"), "")
    with process:
        try:
            outputs, cut = _exchange(process, stdin or b"", timeout_s, cap, bounds)
        except BaseException:
            _end_group(process)
            raise
        if cut:
            _end_group(process)
    if not cut and process.returncode != 0 and bounds is not None:
        cut = bounds.refused(outputs[1])
    return Finished(process.returncode, *outputs, f"{argv[0]} {cut}" if cut else "")


def _exchange(
    process: subprocess.Popen[bytes], stdin: bytes, timeout_s: float, cap: int, bounds: Bounds | None
) -> tuple[tuple[bytes, bytes], str]:
    # Popen.communicate has a timeout but no cap. A clock is read here, and nowhere else in git/, because a time-out is
    # a property of the running process, not of the domain.
    deadline = time.monotonic() + timeout_s
    assert process.stdout is not None and process.stderr is not None
    collected: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    pending = memoryview(stdin)
    cut = ""
    with selectors.DefaultSelector() as selector:
        for stream in collected:
            selector.register(stream, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map() and not cut:
            remaining_s = max(0.0, deadline - time.monotonic())
            ready = selector.select(min(remaining_s, LOOK_S) if bounds else remaining_s)
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    pending = _feed(selector, process.stdin, pending)
                    continue
                chunk = os.read(key.fd, _CHUNK)
                stream = process.stdout if key.fileobj is process.stdout else process.stderr
                collected[stream] += chunk
                if not chunk:
                    selector.unregister(stream)
                elif len(collected[stream]) > cap:
                    cut = f"wrote more than {cap} bytes and was killed"
            if bounds is not None and not cut:
                cut = bounds.exceeded(process.pid)
            if not ready and time.monotonic() >= deadline:
                cut = f"did not finish within {timeout_s:g} s and was killed"
    return (bytes(collected[process.stdout]), bytes(collected[process.stderr])), cut


def _feed(selector: selectors.BaseSelector, stdin: IO[bytes], pending: memoryview) -> memoryview:
    try:
        pending = pending[os.write(stdin.fileno(), pending[:_CHUNK]) :] if pending else pending
    except BrokenPipeError:  # git ended without reading all of it: its exit code tells why
        pending = pending[:0]
    if not pending:
        selector.unregister(stdin)
        stdin.close()
    return pending


def _end_group(process: subprocess.Popen[bytes]) -> None:
    # SIGTERM first: on it git removes its lock files, which SIGKILL would leave behind.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
