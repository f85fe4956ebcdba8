"""Where a criterion's command runs: bounded in time and output, and no process of it survives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.core.errors import RunnerUnavailable
from corral.runners.environment import verification_environment
from corral.runners.process import Feed, end, spawn
from corral.runners.protocol import ApiAccess
from corral.runners.tags import PROJECT_MARK, TASK_MARK
from corral.work.loops.spec import Verdict

SLICE_S = 0.1
MOST_OUTPUT = 16 * 2**20
"""Bytes that a criterion may print."""
KEPT = 64 * 1024
"""Bytes that are read from the end of its output."""
EVIDENCE = 2000
"""Characters of an evaluation's evidence."""
_GRACE_S = 2.0
_NOT_RUN = (126, 127)
"""Exit codes of a shell that could not start the command."""
_KILLED = (137, 143)
"""Exit codes of a shell whose last command got SIGKILL or SIGTERM: that says nothing about the work."""


class Unwanted(Exception):
    """The evaluation is not needed any more: the loop was stopped, or the daemon stops."""


@dataclass(frozen=True)
class Evaluation:
    """The verdict of one criterion about an iteration.

    Attributes:
        value: The number, or the counts, that it measured; None: nothing.
        evidence: Why, for a person and for the next iteration.
        score: To compare iterations: more is better; None: it cannot be said.
    """

    kind: str
    verdict: Verdict
    value: Any = None
    evidence: str = ""
    score: float | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """How a command ended; ``reason`` says why there is no verdict of it, if there is none."""

    exit_code: int | None
    output: str
    reason: str = ""


def _no_access() -> ApiAccess:
    raise RunnerUnavailable("Nothing here can ask the Messages API.")


@dataclass(frozen=True)
class Place:
    """Where the criteria of one iteration are evaluated.

    Attributes:
        folder: The checkout of the iteration's commit, in which commands run.
        environ: The daemon's environment; what is no credential of it is passed on.
        added: Variables on top of it, the marks of the task among them.
        logs: The folder of their output.
        label: Begins the names of the logs.
        timeout_s: Seconds that each may take.
        is_unwanted: Whether the evaluation is not needed any more; asked again and again.
        facts: The iteration, for custom criteria.
        work: Makes the text of the work that a judge sees.
        access: Gives a judge its access to the Messages API; raises RunnerUnavailable.
        worker_models: The models that did the work.
        judge_model: The judge of the settings.
        prove: Raises PathReplaced if the folder is not Corral's any more: then there is no verdict.
    """

    folder: Path
    environ: Mapping[str, str]
    added: Mapping[str, str]
    logs: Path
    label: str
    timeout_s: float
    is_unwanted: Callable[[], bool]
    facts: Mapping[str, Any]
    work: Callable[[], str] = str
    access: Callable[[], ApiAccess] = _no_access
    worker_models: frozenset[str] = frozenset()
    judge_model: str | None = None
    prove: Callable[[], None] = lambda: None

    def shell(self, command: str, timeout_s: float | None, *, stdin: bytes = b"") -> Ran:
        """Run a command of the user's."""
        return self.run(["/bin/sh", "-c", command], timeout_s, stdin=stdin)

    def run(
        self, argv: Sequence[str], timeout_s: float | None, *, stdin: bytes = b"", more: Mapping[str, str] | None = None
    ) -> Ran:
        """Run a program, with a text as its standard input.

        Args:
            timeout_s: Its own limit; never more than that of the place.
            more: Further variables for it alone.

        Raises:
            Unwanted: The evaluation was stopped.
            RunnerUnavailable: It could not be started.
            PathReplaced: Something else stands in the folder's place, or was put there meanwhile.
        """
        self.prove()
        number = 1
        while (log := self.logs / f"{self.label}-{number}.log").exists():
            number += 1
        env = {**verification_environment(self.environ, self.added), **(more or {})}
        process = spawn(argv, cwd=self.folder, env=env, log=log, takes_input=True)
        feed = Feed(process)
        feed.send(stdin)
        feed.finish()
        allowed_s = min(timeout_s or self.timeout_s, self.timeout_s)
        try:
            reason = self._wait(process, feed, log, allowed_s)
        finally:
            feed.close()
            end(process, {name: env[name] for name in (PROJECT_MARK, TASK_MARK) if name in env}, grace_s=_GRACE_S)
        if reason is None:
            raise Unwanted
        self.prove()
        return _ran(process.returncode, _end_of(log), reason)

    def _wait(self, process: subprocess.Popen[bytes], feed: Feed, log: Path, allowed_s: float) -> str | None:
        """Wait in short slices; returns why it must be ended early, "" if it has ended itself, None if it is unwanted."""
        for _ in range(max(1, round(allowed_s / SLICE_S))):
            with suppress(subprocess.TimeoutExpired):
                process.wait(SLICE_S)
                return ""
            feed.flush()
            if log.stat().st_size > MOST_OUTPUT:
                return f"It printed more than {MOST_OUTPUT // 2**20} MB, and was ended."
            if self.is_unwanted():
                return None
        return f"It was not done after {round(allowed_s, 1):g} s, and was ended."


def _ran(exit_code: int, output: str, reason: str) -> Ran:
    if reason:
        return Ran(None, output, reason)
    if exit_code in _NOT_RUN:
        return Ran(exit_code, output, f"It could not be run (exit code {exit_code}): {last_lines(output, 1)}")
    if exit_code < 0 or exit_code in _KILLED:
        return Ran(exit_code, output, f"It was killed (exit code {exit_code}).")
    return Ran(exit_code, output)


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - KEPT))
        return file.read(KEPT).decode(errors="replace")


def last_lines(output: str, most: int = 20) -> str:
    """The end of an output, as evidence."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    return "\n".join(lines[-most:])[-EVIDENCE:]
