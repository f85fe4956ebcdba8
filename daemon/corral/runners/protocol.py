"""What the supervisor and the runners agree on: an assignment goes in, observations come out.

A runner starts one worker process per assignment and never blocks: no thread, no sleep, no clock. Whoever owns the
clock calls :meth:`Running.observe` again and again until it reports :class:`Finished`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from corral.models.blame import BLAME, Blame
from corral.runners.process import PROJECT_MARK, TASK_MARK

ERRAND = (
    "You work on one task of a batch, in a git worktree and on a branch of your own; other workers have theirs. Work only "
    "in this folder. When you finish, what you leave here, committed or not, is committed, merged into the target branch "
    "and verified for you: do not merge, push, stash or submit it yourself. If you cannot do the task, say why and stop."
)
"""What everyone is told who gets a prompt."""


@dataclass(frozen=True)
class Limits:
    """What one attempt may use; None means no limit.

    Attributes:
        timeout_s: Seconds from start to end.
        max_turns: Turns of the model (``claude`` only).
        max_tokens: Input and output tokens together (``claude`` only).
        max_cost_usd: US dollars (``claude`` only).
        memory_mb: Mebibytes over the whole process tree.
        stall_s: Seconds without any sign of progress.
    """

    timeout_s: float | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    memory_mb: int | None = None
    stall_s: float | None = None


@dataclass(frozen=True)
class Assignment:
    """One attempt at one task.

    Attributes:
        project_id: The project's, by which its daemon knows its processes.
        command: Shell text for the runner ``command``.
        program: Instead of it, a program and its arguments, which gets the prompt as its standard input.
        prompt: The request for the runner ``claude``, or for a program.
        worktree: The folder it works in.
        log: Where its output goes; made with mode 0600, appended to if it exists.
        session_id: A UUID that no attempt had before.
        env: Variables on top of the scrubbed environment; folders in its PATH come first.
        identity_env: ``GIT_AUTHOR_*`` and ``GIT_COMMITTER_*``.
        plugin_dir: The bundle that ``claude`` loads.
        model: The model that ``claude`` uses; None leaves it to the user's settings.
        agent: Whose definition ``claude`` works by: its name.
        definition: That definition, as the client takes it.
        instructions: What it is told beside its prompt.
    """

    task_id: str
    attempt: int
    title: str
    command: str | None
    prompt: str | None
    worktree: Path
    log: Path
    session_id: str
    env: Mapping[str, str]
    limits: Limits
    identity_env: Mapping[str, str]
    project_id: str
    program: Sequence[str] = ()
    plugin_dir: Path | None = None
    model: str | None = None
    agent: str | None = None
    definition: Mapping[str, Any] | None = None
    instructions: str | None = None

    @property
    def marks(self) -> dict[str, str]:
        """What every process of this attempt carries in its environment."""
        return {PROJECT_MARK: self.project_id, TASK_MARK: self.task_id}

    @property
    def briefing(self) -> str:
        """What it is told beside its prompt, with what everyone is told."""
        return f"{ERRAND}\n\n{self.instructions}" if self.instructions else ERRAND


@dataclass
class Usage:
    """What a worker has used so far.

    Attributes:
        input_tokens: Tokens the model read for the first time; what came from its cache is not counted again.
        output_tokens: Tokens it wrote. Exact at the end of a turn, a lower bound before.
        cost_usd: US dollars, known at the end of a turn.
        turns: Answers of the model.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0


@dataclass(frozen=True)
class Finished:
    """How a worker ended.

    Attributes:
        exit_code: Of its process, negative for a signal.
        error_code: One of those in :mod:`corral.models.blame`; None on success.
        error_message: One line for a person; None on success.
        retryable: Whether another attempt makes sense.
        result: What it produced (JSON-serialisable).
    """

    success: bool
    exit_code: int | None
    error_code: str | None
    error_message: str | None
    retryable: bool
    result: dict[str, Any] = field(default_factory=dict)


def failure(code: str, message: str, *, exit_code: int | None, result: dict[str, Any] | None = None) -> Finished:
    """A failed end; whether it is retryable follows from its code."""
    return Finished(False, exit_code, code, message, BLAME[code] is not Blame.FINAL, result or {})


@dataclass(frozen=True)
class Observation:
    """What one look at a worker showed.

    Attributes:
        finished: Set once nothing of it is alive any more; the same from then on.
        progress: Its last line that a person can read, already free of secrets and control characters.
        progressed: Whether it got anywhere since the look before.
    """

    finished: Finished | None
    usage: Usage
    progress: str | None
    progressed: bool


class Running(Protocol):
    """A worker that was started. ``pid`` with ``pid_started`` (seconds since the epoch) survives the reuse of pids."""

    @property
    def pid(self) -> int:
        """The leader of its process group."""

    @property
    def pid_started(self) -> float:
        """When the leader started."""

    def observe(self, now: datetime) -> Observation:
        """Read what is new, enforce the limits, carry a stop forward; never blocks."""

    def stop(self, now: datetime, reason_code: str, message: str) -> None:
        """Ask the whole process group to end; a later look kills what did not, and reports the reason as its error."""

    @property
    def listens(self) -> bool:
        """Whether it can be told something now."""

    def tell(self, text: str) -> bool:
        """Hand a message to the worker, without waiting for it; False if it cannot take one."""


class Runner(Protocol):
    """A way to execute an assignment."""

    @property
    def name(self) -> str:
        """The value of ``--runner``."""

    def available(self, program: Sequence[str] = ()) -> None:
        """Check that it can start at all.

        Args:
            program: What it would start, where that is an agent's own.

        Raises:
            RunnerUnavailable: What it needs is missing; says what to install.
        """

    def start(self, assignment: Assignment, now: datetime) -> Running:
        """Start one attempt.

        Raises:
            InvalidInput: The assignment is not for this runner.
            RunnerUnavailable: The process could not be started.
        """
