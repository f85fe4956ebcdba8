"""The interface between the supervisor and the runners: an assignment goes in, observations come out.

A runner starts one worker process per assignment and never blocks: no thread, no sleep, no clock. The supervisor calls
:meth:`Running.observe` until it reports :class:`Finished`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from corral.runners.blame import BLAME, Blame
from corral.runners.tags import PROJECT_MARK, TASK_MARK

if TYPE_CHECKING:
    from corral.runners.keeping import Kept

BRIEFING = (
    "You work on one task of a batch, in a git worktree and on a branch of your own; other workers have theirs. Work only "
    "in this folder. When you finish, what you leave here, committed or not, is committed, merged into the target branch "
    "and verified for you: do not merge, push, stash or submit it yourself. If you cannot do the task, say why and stop."
)
"""The briefing of every worker with a prompt."""


@dataclass(frozen=True)
class Limits:
    """Limits of one attempt; None means no limit.

    Attributes:
        timeout_s: Seconds from start to end.
        max_turns: Turns of the model (``claude`` and ``anthropic``).
        max_tokens: Input and output tokens together (``claude`` and ``anthropic``).
        max_cost_usd: US dollars (``claude`` and ``anthropic``).
        memory_mb: Mebibytes over the whole process tree.
        stall_s: Seconds without progress.
        output_mb: Mebibytes that it writes to its log.
    """

    timeout_s: float | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    memory_mb: int | None = None
    stall_s: float | None = None
    output_mb: int | None = None


@dataclass
class Usage:
    """The usage of a worker so far.

    Attributes:
        input_tokens: Tokens that the model read, without those from its cache.
        output_tokens: Tokens that it wrote. Exact at the end of a turn, a lower bound before.
        cost_usd: US dollars, known at the end of a turn.
        turns: Answers of the model.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0


@dataclass(frozen=True)
class PastConversation:
    """A conversation of an earlier attempt that an attempt resumes.

    Attributes:
        session_id: The id of that attempt's session.
        file: Its messages, where the runner stores them itself.
        usage: The conversation's usage so far, with that of the conversations that it resumed.
    """

    session_id: str
    file: Path
    usage: Usage


@dataclass(frozen=True)
class Assignment:
    """One attempt at one task.

    Attributes:
        project_id: The project id that marks its processes.
        command: Shell text for the runner ``command``.
        program: Instead of it, a program and its arguments, which gets the prompt as its standard input.
        prompt: The request for the runner ``claude`` or ``anthropic``, or for a program.
        worktree: The folder it works in.
        log: Its output; created with mode 0600, appended to if it exists.
        keeper: The folder of its keeper (:mod:`corral.runners.keeping`), made at the start.
        session_id: A UUID, new for each attempt.
        env: Variables on top of the scrubbed environment; folders in its PATH come first.
        identity_env: ``GIT_AUTHOR_*`` and ``GIT_COMMITTER_*``.
        plugin_dir: The bundle that ``claude`` loads.
        model: The model that it asks for; None leaves it to the settings of ``claude``.
        agent: The name of the agent definition for ``claude`` or ``anthropic``.
        definition: That definition, as the client reads it.
        instructions: Further instructions besides the prompt.
        conversation: The file that stores its conversation for a later attempt, where its runner does not; None: none will.
        resumes: The conversation that it resumes; None: a new one.
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
    keeper: Path
    program: Sequence[str] = ()
    plugin_dir: Path | None = None
    model: str | None = None
    agent: str | None = None
    definition: Mapping[str, Any] | None = None
    instructions: str | None = None
    conversation: Path | None = None
    resumes: PastConversation | None = None

    @property
    def marks(self) -> dict[str, str]:
        """The marks in the environment of every process of this attempt."""
        return {PROJECT_MARK: self.project_id, TASK_MARK: self.task_id}

    @property
    def name(self) -> str:
        """What its keeper is marked with."""
        return f"{self.task_id}/{self.attempt}"

    @property
    def told(self) -> dict[str, Any]:
        """What the next daemon needs to follow it (:mod:`corral.runners.keeping`)."""
        past = self.resumes
        fields = {name: getattr(self, name) for name in ("task_id", "attempt", "title", "session_id")}
        return {**fields, "resumes": past and {**asdict(past), "file": str(past.file)}}

    @property
    def briefing(self) -> str:
        """Its instructions besides the prompt, with those for every worker."""
        return f"{BRIEFING}\n\n{self.instructions}" if self.instructions else BRIEFING


@dataclass(frozen=True)
class Finished:
    """The end of a worker.

    Attributes:
        exit_code: Of its process, negative for a signal.
        error_code: One of those in :mod:`corral.runners.blame`; None on success.
        error_message: One line for a person; None on success.
        retryable: Whether another attempt makes sense.
        result: Its result (JSON-serialisable).
    """

    success: bool
    exit_code: int | None
    error_code: str | None
    error_message: str | None
    retryable: bool
    result: dict[str, Any] = field(default_factory=dict)


def failure(code: str, message: str, *, exit_code: int | None, result: dict[str, Any] | None = None) -> Finished:
    """A failed end; its code decides whether it is retryable."""
    return Finished(False, exit_code, code, message, BLAME[code] is not Blame.FINAL, result or {})


@dataclass(frozen=True)
class ToolCall:
    """A tool call that has ended.

    Attributes:
        use_id: The client's id of it.
        arguments: Its input.
        error: Why it failed; None: it did not.
    """

    use_id: str
    tool: str
    arguments: Mapping[str, Any]
    error: str | None


@dataclass(frozen=True)
class Observation:
    """The result of one call of :meth:`Running.observe`.

    Attributes:
        finished: Set once none of its processes is alive; the same from then on.
        progress: Its last readable line, without secrets and control characters.
        progressed: Whether it made progress since the last observation.
        memory_mb: Resident memory of its processes at the last measurement, MiB; None before the first.
        tool_calls: The model's tool calls that ended since the last observation.
        undying: Its processes that live on long after SIGKILL, for a person; None: there are none.
    """

    finished: Finished | None
    usage: Usage
    progress: str | None
    progressed: bool
    memory_mb: float | None = None
    tool_calls: Sequence[ToolCall] = ()
    undying: str | None = None


class Running(Protocol):
    """A started worker. ``pid`` with ``pid_started``, its start as the system knows it, survives the reuse of pids."""

    @property
    def pid(self) -> int:
        """The leader of its process group."""

    @property
    def pid_started(self) -> float:
        """When the leader started."""

    def observe(self, now: datetime) -> Observation:
        """Read new output, enforce the limits, continue a stop; never blocks."""

    def stop(self, now: datetime, reason_code: str, message: str) -> None:
        """Send SIGTERM to the whole process group; later observations kill the rest, and report the reason as its error."""

    def await_exit(self) -> None:
        """Return when its process has ended. Blocks; for a thread of its own."""

    @property
    def listens(self) -> bool:
        """Whether it accepts a message now."""

    def tell(self, text: str) -> bool:
        """Send a message to the worker without waiting; False if it cannot take one."""


@dataclass(frozen=True)
class ApiAccess:
    """Everything that a process of ours needs for requests to the Messages API.

    Attributes:
        base_url: None: the API's own.
        folders: Where an isolated interpreter finds Corral and the SDK.
    """

    api_key: str = field(repr=False)
    base_url: str | None
    folders: Sequence[str]


@runtime_checkable
class HasApiAccess(Protocol):
    """A runner that asks the Messages API itself."""

    def access(self) -> ApiAccess:
        """The key and the address of its requests.

        Raises:
            RunnerUnavailable: There is no key, or the SDK is not installed.
        """


class Runner(Protocol):
    """Executes assignments."""

    @property
    def name(self) -> str:
        """The value of ``--runner``."""

    def available(self, program: Sequence[str] = ()) -> None:
        """Check that it can start at all.

        Args:
            program: An agent's own program, if any.

        Raises:
            RunnerUnavailable: Something is missing; says what to install.
        """

    def start(self, assignment: Assignment, now: datetime) -> Running:
        """Start one attempt.

        Raises:
            InvalidInput: The assignment is not for this runner.
            RunnerUnavailable: The process could not be started.
        """

    def follow(self, assignment: Assignment, kept: Kept, now: datetime) -> Running:
        """Follow a worker that runs already, or has ended: one that another daemon started.

        Args:
            assignment: As :func:`corral.runners.keeping.find` knows it.
        """
