"""One run of the configured commands on one tree, as processes that are started, polled and ended.

A verdict is green only if every command ran, ended with 0, ran tests where its runner tells, and left the tree as it
was. What keeps a command from running at all (not found, killed, out of time, out of log space, a tree it changed) is
``error``: no verdict, and never the fault of the change.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from corral.errors import CorralError, RunnerUnavailable
from corral.git import status
from corral.git.command import Git
from corral.landing import test_counts
from corral.models.states import ReceiptStatus
from corral.observe.redaction import redact
from corral.runners.process import LogTail, open_private, signal_each, spawn, survivors

MARK = "CORRAL_VERIFICATION"
"""In the environment of every process of a run, with the worktree's path, so that those who left the group are found."""

POLL_S = 1.0
LOG_LIMIT = 256 * 1024 * 1024
TAIL_BYTES = 1024 * 1024
_LOOKS = 5
"""At the living, since one that is killed may have started another a moment before."""
REASON_LINES = 8
_COULD_NOT_RUN = {126: "it is not executable", 127: "a command was not found"}
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


@dataclass(frozen=True)
class Verdict:
    """What one run proved; the fields are those of a receipt. There is no secret in its reason."""

    status: ReceiptStatus
    exit_code: int | None
    tests: int | None
    duration_s: float
    log: Path | None
    reason: str | None

    def because(self, reason: str) -> Verdict:
        """The same verdict with another reason."""
        return replace(self, reason=reason)


class Verification:
    """A run in progress. Made started; :meth:`poll` moves it on and at last gives the verdict.

    Args:
        checkout: The verification worktree, detached at ``sha``.
        sha: The commit whose tree is verified.
        commands: At least one shell command, run in order by ``/bin/sh -c`` until one fails.
        env: The whole environment of the commands.
        log: Where their output goes; made with mode 0600.
        timeout_s: Seconds for all commands together.
        now: When the run starts.
    """

    def __init__(
        self,
        checkout: Git,
        path: Path,
        sha: str,
        commands: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        timeout_s: float,
        now: datetime,
    ) -> None:
        self._checkout = checkout
        self._path = path
        self._sha = sha
        self._waiting = list(commands)
        self._env = {**env, MARK: str(path)}
        self._log = log
        self._timeout_s = timeout_s
        self._started_at = now
        self._tests: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._command = ""
        self._tail: LogTail | None = None
        self._output = b""
        self._written = 0
        self._trouble: str | None = None
        self._next()

    @property
    def pid(self) -> int | None:
        """The process of the command that runs now."""
        return self._process.pid if self._process else None

    def due_at(self, now: datetime) -> datetime:
        """When to poll again at the latest."""
        return min(self._started_at + timedelta(seconds=self._timeout_s), now + timedelta(seconds=POLL_S))

    def poll(self, now: datetime) -> Verdict | None:
        """Look without waiting: start the next command, end one that is over its limits, or conclude.

        Returns:
            The verdict, once; None while it runs.
        """
        try:
            return self._look(now)
        except OSError as error:
            self.stop()
            return self._verdict(now, ReceiptStatus.ERROR, None, f"`{self._command}` could not be followed: {error}")

    def stop(self) -> None:
        """End every process of the run and wait for the first one's death."""
        if self._process is None:
            return
        end_marked(self._path, self._process.pid)
        # SIGKILL is not refused; one stuck in the kernel is reaped whenever it leaves it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)

    def close(self) -> None:
        """Let go of the log; for the thread that polls, once it polls no more."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _next(self) -> None:
        self._command = self._waiting.pop(0)
        self._process = None
        self.close()
        try:
            _write(self._log, f"$ {self._command}\n")
            self._tail, self._output = LogTail(self._log), b""
            shell = ["/bin/sh", "-c", self._command]
            self._process = spawn(shell, cwd=self._path, env=self._env, log=self._log)
        except (OSError, RunnerUnavailable) as error:
            self._trouble = str(error)

    def _look(self, now: datetime) -> Verdict | None:
        if self._process is None:
            return self._verdict(
                now, ReceiptStatus.ERROR, None, f"`{self._command}` could not be started: {self._trouble}"
            )
        code = self._process.poll()
        self._read()
        if code is None:
            over = self._over_limit(now)
            if over is None:
                return None
            self.stop()
            return self._verdict(now, ReceiptStatus.ERROR, None, f"`{self._command}` {over} and was ended.")
        end_marked(self._path, self._process.pid)
        failure = self._judge(code)
        if failure is not None:
            state, reason = failure
            return self._verdict(now, state, code, reason)
        if self._waiting:
            self._next()
            return None
        return self._verdict(now, ReceiptStatus.PASSED, code, None)

    def _read(self) -> None:
        for data in self._tail.chunks() if self._tail else ():
            self._output = (self._output + data)[-TAIL_BYTES:]
            self._written += len(data)

    def _over_limit(self, now: datetime) -> str | None:
        if now - self._started_at >= timedelta(seconds=self._timeout_s):
            return f"took longer than landing.timeout_s ({self._timeout_s:g} s)"
        if self._written > LOG_LIMIT:
            return f"wrote more than {LOG_LIMIT // 1024 // 1024} MB of output"
        return None

    def _judge(self, code: int) -> tuple[ReceiptStatus, str] | None:
        output = self._output.decode("utf-8", "replace")
        changed = self._what_changed()
        if changed is not None:
            return ReceiptStatus.ERROR, f"The verdict is void: `{self._command}` {changed}."
        if code in _COULD_NOT_RUN:
            return ReceiptStatus.ERROR, f"`{self._command}` could not run: {_COULD_NOT_RUN[code]} (exit code {code})."
        if code in _KILLED:
            return ReceiptStatus.ERROR, f"`{self._command}` was killed from outside, perhaps for want of memory."
        ran = test_counts.count(output)
        if ran is not None:
            self._tests = (self._tests or 0) + ran
        if code != 0:
            return ReceiptStatus.FAILED, f"`{self._command}` failed with exit code {code}:\n{last_lines(output)}"
        if ran == 0:
            return ReceiptStatus.FAILED, f"`{self._command}` ran no tests."
        return None

    def _what_changed(self) -> str | None:
        try:
            if self._checkout.head() != self._sha or self._checkout.branch() is not None:
                return "moved the HEAD of the verification worktree"
            paths = [change.path for change in status.changes(self._checkout) if change.code != "??"]
        except CorralError as error:
            return f"damaged the verification worktree ({error.message})"
        return f"changed tracked files ({', '.join(paths[:5])})" if paths else None

    def _verdict(self, now: datetime, state: ReceiptStatus, code: int | None, reason: str | None) -> Verdict:
        told = redact(reason) if reason is not None else None
        return Verdict(state, code, self._tests, (now - self._started_at).total_seconds(), self._log, told)


def end_marked(path: Path, group: int | None = None) -> None:
    """Kill a run: its process group, and whoever left it but carries the mark of the worktree at ``path``."""
    for _look in range(_LOOKS):
        alive = survivors(group, str(path), MARK)
        if not alive:
            return
        signal_each(alive, signal.SIGKILL)


def _write(log: Path, text: str) -> None:
    with os.fdopen(open_private(log, os.O_WRONLY | os.O_APPEND), "ab") as file:
        file.write(text.encode(errors="replace"))


def last_lines(output: str) -> str:
    """The last lines that say something, short enough for a reason. A secret is taken out before it could be cut in two."""
    lines = [line.rstrip()[:200] for line in redact(output).splitlines() if line.strip()]
    return "\n".join(lines[-REASON_LINES:])
