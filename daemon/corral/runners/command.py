"""The runner ``command``: a user's shell command, or an agent's own program, in the task's worktree."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from datetime import datetime

from corral.core.errors import InvalidInput, RunnerUnavailable
from corral.runners.environment import worker_environment
from corral.runners.keeping import Kept, keep
from corral.runners.protocol import Assignment, Finished, Running, ToolCall, Usage, failure
from corral.runners.stream import one_line, plain
from corral.runners.worker import Worker

_TAIL_BYTES = 8192
_WORD = re.compile(r"\w")
_ERROR = re.compile(r"\b[A-Z]\w*(?:Error|Exception): [^\"\\\n]*")
"""The form of an error message in most languages, also inside a log line."""


class CommandRunner:
    """Runs ``/bin/sh -c COMMAND``; or a program with arguments and the prompt as its standard input.

    A prompt is no argument: it may be too long, look like an option, and every user of the machine could read it.

    Args:
        environ: The daemon's environment; a worker's is derived from it.
        stop_grace_s: Seconds from SIGTERM to SIGKILL.
    """

    name = "command"

    def __init__(self, environ: Mapping[str, str], *, stop_grace_s: float = 5.0) -> None:
        self._environ = environ
        self._stop_grace_s = stop_grace_s

    def available(self, program: Sequence[str] = ()) -> None:
        """Check that the program is installed; a shell always is.

        Raises:
            RunnerUnavailable: It is not on the PATH.
        """
        if program:
            find_program(program[0], self._environ.get("PATH"))

    def start(self, assignment: Assignment, now: datetime) -> Running:
        """Start the command or the program; exit code 0 is success.

        Raises:
            InvalidInput: There is no command, or a shell cannot take it; or no prompt for a program.
            RunnerUnavailable: The shell could not be started, or the program was not found.
        """
        env = environment_for(assignment, self._environ)
        argv, stdin = self._program(assignment, env) if assignment.program else (_shell(assignment), None)
        kept = keep(assignment, argv, env, grace_s=self._stop_grace_s, stdin=stdin, closes_stdin=True)
        return self.follow(assignment, kept, now)

    def follow(self, assignment: Assignment, kept: Kept, now: datetime) -> Running:
        """Follow a worker that runs, or has ended."""
        return Worker(assignment, CommandOutput(), kept, now=now, grace_s=self._stop_grace_s)

    @staticmethod
    def _program(assignment: Assignment, env: Mapping[str, str]) -> tuple[list[str], bytes]:
        if not assignment.prompt:
            raise InvalidInput("The task has no prompt.", remedy="Submit it with --prompt.")
        name, *arguments = assignment.program
        stdin = f"{assignment.briefing}\n\n{assignment.prompt}\n"
        return [find_program(name, env.get("PATH")), *arguments], stdin.encode()


def _shell(assignment: Assignment) -> list[str]:
    if not assignment.command or "\0" in assignment.command:
        raise InvalidInput("The task has no command that a shell can run.", remedy="Submit it with --command.")
    return ["/bin/sh", "-c", assignment.command]


def find_program(program: str, path: str | None, *, what: str = "program", remedy: str = "") -> str:
    """The path of a program; raises RunnerUnavailable if it is not on the PATH."""
    resolved = shutil.which(program, path=path)
    if resolved is None:
        raise RunnerUnavailable(
            f"The {what} {program!r} was not found.",
            cause="It is not installed, or not on the PATH that the daemon was started with.",
            remedy=remedy or f"Install {program}, or choose another agent for the task.",
        )
    return resolved


def environment_for(assignment: Assignment, environ: Mapping[str, str], *, is_claude: bool = False) -> dict[str, str]:
    """A worker's whole environment (:func:`worker_environment`), with the marks that identify it and its descendants."""
    marks = {**assignment.marks, "CORRAL_SESSION_ID": assignment.session_id}
    return worker_environment(environ, {**assignment.identity_env, **assignment.env, **marks}, is_claude=is_claude)


class CommandOutput:
    """Plain lines: any output is progress, and the last line is shown."""

    settled = False
    waits = False

    def __init__(self) -> None:
        self.usage = Usage()
        self.progress: str | None = None
        self._last = b""

    def feed(self, data: bytes) -> bool:
        """Keep the end of the output."""
        self._last = (self._last + data)[-_TAIL_BYTES:]
        lines = self._lines()
        self.progress = next((line for line in reversed(lines) if _WORD.search(line)), self.progress)
        return True

    def take_tool_calls(self) -> list[ToolCall]:
        """A plain command calls none."""
        return []

    def verdict(self, exit_code: int) -> Finished:
        """The exit code decides."""
        result = {"exit_code": exit_code, "output": "\n".join(self._lines()[-20:])}
        if exit_code == 0:
            return Finished(True, 0, None, None, False, result)
        if ended := ended_by_signal(exit_code):
            code, name = ended
            return failure(code, f"The command was killed by {name}.", exit_code=exit_code, result=result)
        reason = self._reason()
        message = f"The command exited with {exit_code}{f': {reason}' if reason else '.'}"
        return failure("command_failed", message, exit_code=exit_code, result=result)

    def _reason(self) -> str | None:
        """The last line; if that only closes a bracket, an error named further up."""
        lines = self._whole_lines()
        if not lines or _WORD.search(lines[-1]):
            return self.progress
        errors = _ERROR.findall("\n".join(lines))
        return one_line(errors[-1]) if errors else self.progress

    def _lines(self) -> list[str]:
        return [one_line(line) for line in self._whole_lines()]

    def _whole_lines(self) -> list[str]:
        lines = plain(self._last.decode(errors="replace")).splitlines()
        # Without a first line that may be cut: a cut secret is not recognised.
        whole = lines[1:] if len(self._last) == _TAIL_BYTES and len(lines) > 1 else lines
        return [line for line in whole if line.strip()]


# Signals that a program raises itself; any other was sent by another process.
_OWN_SIGNALS = (
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGPIPE, signal.SIGSEGV, signal.SIGSYS,
    signal.SIGTRAP,
)  # fmt: skip
# A shell exits with 128 + n if signal n ended its last command. Programs use other such codes for themselves.
_SHELL_CODES = (128 + signal.SIGKILL, 128 + signal.SIGTERM)


def ended_by_signal(exit_code: int) -> tuple[str, str] | None:
    """The error code, ``crashed`` or ``killed``, and the name of the signal that ended a worker; None without a signal."""
    if exit_code >= 0 and exit_code not in _SHELL_CODES:
        return None
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        ended_by = signal.Signals(number)
    except ValueError:
        return "killed", f"signal {number}"
    return "crashed" if ended_by in _OWN_SIGNALS else "killed", ended_by.name
