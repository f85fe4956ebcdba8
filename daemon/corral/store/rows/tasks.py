"""Rows of tasks, of what they claim and wait for, and of worktrees."""

from typing import Annotated, Any, TypedDict

from corral.store.rows import Id, Instant, Name, Sha, State, Word


class TaskSummary(TypedDict):
    """The columns of the table of tasks that a list shows."""

    task_id: Id
    seq: int
    title: str
    status: State
    priority: int
    agent: Name | None
    template: Name | None
    created_at: Instant
    parent_task_id: Id | None
    step: Name | None


class ExportedTask(TypedDict):
    """The columns of a task for the lines of the supervisor's files and the name of its evidence."""

    task_id: str
    idempotency_key: str | None
    title: str
    status: str
    priority: int
    metadata: dict[str, Any] | None


class ListedTask(TaskSummary):
    """A task in a list, with the progress of its newest attempt."""

    progress: str | None


class TaskFailure(TypedDict):
    """Why a task failed, of its columns."""

    task_id: str
    title: str
    status: str
    error_message: str | None
    completed_at: str | None


class FailedTask(TaskFailure):
    """A task that failed; ``is_loop``: it repeats until something is reached."""

    is_loop: bool


class StoredTask(TaskSummary):
    """The columns of the table of tasks."""

    task_type: Word
    description: str | None
    runner: State | None
    command: str | None
    prompt: str | None
    input_data: dict[str, Any] | None
    agent_requirements: dict[str, Any] | None
    deadline_at: Instant | None
    thread_id: Name | None
    submitted_by: Name | None
    author_name: str | None
    author_email: str | None
    target: str | None
    timeout_s: float | None
    limits: dict[str, Any]
    max_retries: int
    retries_chosen: bool
    attempts: int
    crashes: int
    faults: int
    ignore_dependency_failure: bool
    idempotency_key: Name | None
    fencing_token: int
    current_attempt: int | None
    not_before_at: Instant | None
    cancel_reason: str | None
    result: Any | None
    error_code: Word | None
    error_message: str | None
    completed_at: Instant | None
    dismissed_at: Instant | None
    metadata: dict[str, Any] | None
    agents_wanted: int | None
    combine: State | None
    steps_wanted: int | None
    agent_version: Word | None


class _AttemptDetails(TypedDict):
    lease_expires_at: Instant | None
    worktree_id: Id | None
    branch: str | None
    base_sha: Sha | None
    head_sha: Sha | None
    pid: int | None
    pid_started: float | None
    progress: str | None
    progress_at: Instant | None
    started_at: Instant | None


class CurrentAttempt(_AttemptDetails):
    """The columns of the attempt that counts, as they are read with their task; None where no attempt counts."""

    session_id: str | None


class TaskRow(StoredTask, CurrentAttempt):
    """A task with the attempt that counts."""


class ClaimedTask(TypedDict):
    """A task that a session has claimed."""

    task_id: str
    title: str
    lease_expires_at: str | None


class AttemptRow(_AttemptDetails):
    """An attempt at a task; its number is the fencing token."""

    task_id: Id
    number: int
    session_id: Name
    claim_key: Name | None
    agent: Name | None
    runner: State | None
    model: Name | None
    host: str | None
    usage: dict[str, Any]
    memory_mb: int | None
    claimed_at: Instant
    ended_at: Instant | None
    outcome: State | None
    error_code: Word | None
    error_message: str | None


class DayUse(TypedDict):
    """The use of attempts together; None where there were none."""

    tokens: int | None
    cost_usd: float | None


class SwarmMember(TypedDict):
    """An open attempt, with its task and its session; that has no row while the worker starts."""

    task_id: str
    seq: int
    parent_task_id: str | None
    cancel_reason: str | None
    title: str
    number: int
    claimed_at: str
    model: str | None
    session_id: str
    agent_name: str | None
    last_heartbeat: str | None
    agent: str | None
    runner: str | None
    pid: int | None
    progress: str | None
    usage: dict[str, Any]


class EndedAttempt(TypedDict):
    """An attempt that has ended: by whom it was, how it ended, and what it used."""

    agent: str | None
    runner: str | None
    outcome: str | None
    started_at: str | None
    ended_at: str | None
    tokens: int
    cost_usd: float
    memory_mb: int | None


class WorkedAttempt(TypedDict):
    """An attempt, ended or not: by whom, at which task, and when."""

    task_id: str
    seq: int
    title: str
    number: int
    session_id: str
    agent_name: str | None
    claimed_at: str
    ended_at: str | None
    outcome: str | None


class SharedValue(TypedDict):
    """A value that agents share about a task; its version counts its changes."""

    key: Annotated[str, 256]
    value: Any
    version: int
    updated_by: Name | None
    updated_at: Instant


class TaskStateRow(SharedValue):
    """The columns of the table of shared values."""

    task_id: Id


class TaskDoer(TypedDict):
    """The columns of a task that decide who executes it, and how; its id is empty where it has none yet."""

    task_id: str
    agent_version: str | None
    agent_requirements: dict[str, Any] | None
    runner: str | None
    agent: str | None
    command: str | None


class StateCount(TypedDict):
    """How many tasks are in a state."""

    number: int


class CountedState(StateCount):
    """How many rows are in which state."""

    state: str


class OfferedTask(TaskDoer):
    """The columns of a task that decide whether it starts."""

    seq: int
    priority: int
    created_at: str
    parent_task_id: str | None


class ReadyTask(OfferedTask):
    """A task that could start; ``has_claims``: it claims files or keys, so that it may have to wait for others."""

    has_claims: bool


class _TaskOutcome(TypedDict):
    task_id: str
    status: str
    merge_state: str | None


class TaskStanding(_TaskOutcome):
    """The state of a task, and of its decisive merge request (None without one)."""

    merge_id: str | None
    seq: int
    title: str
    target: str | None


class OwnRoadmapTask(TypedDict):
    """The columns of the table of tasks that tell how the queue task of a roadmap task stands."""

    task_id: str
    status: str
    fencing_token: int
    error_code: str | None
    idempotency_key: str | None
    metadata: dict[str, Any] | None


class RoadmapTaskRow(OwnRoadmapTask):
    """A roadmap task with the state of its decisive merge request (None without one)."""

    merge_state: str | None


class BatchTask(_TaskOutcome):
    """A task in a batch summary, with its decisive merge request."""

    thread_id: str | None
    title: str
    submitted_by: str | None
    session_id: str | None
    error_message: str | None
    completed_at: str | None
    conflicts: list[dict[str, str]] | None
    landed_sha: str | None


class ChildTask(TypedDict):
    """A dependent whose state hangs on its parents."""

    task_id: str
    status: str
    error_code: str | None
    error_message: str | None
    ignore_dependency_failure: bool
    combine: str | None
    steps_wanted: int | None


class ParentTask(_TaskOutcome):
    """A task that another one waits for, and the state of its merge request that counts, None without one."""

    child_id: str
    title: str
    step: str | None
    error_code: str | None
    error_message: str | None
    merge_head: str | None
    merge_reason: str | None
    clashes_sha: str | None


class StackedTask(TypedDict):
    """A task in whose worktree the work of others is, each by its id with the head that it had.

    ``session_id`` is the worker's, None where it has ended and its merge request is open.
    """

    task_id: str
    session_id: str | None
    stacked_on: dict[str, str]


class ParentResult(TypedDict):
    """The result of a task, for one that waits for it."""

    task_id: str
    title: str
    step: str | None
    status: str
    result: Any | None


class ClaimRow(TypedDict):
    """A lock key that a task claims."""

    task_id: Id
    claim: str


class WorkPause(TypedDict):
    """The pause of all work."""

    reason: str | None
    since_at: Instant


class WorkPauseRow(WorkPause):
    """The pause of all work, with the row's key."""

    id: int


class WorktreePlace(TypedDict):
    """The path of a worktree, and the branch that it was created with."""

    path: str
    branch: str | None


class WorktreeRow(WorktreePlace):
    """A worktree; its row comes before the folder and outlives it.

    ``stacked_on``: the tasks on whose finished work, not landed then, ``base_sha`` was made, each with the head of that.
    """

    worktree_id: Id
    name: Word
    base_sha: Sha
    purpose: State
    state: State
    task_id: Id | None
    session_id: Name | None
    port_base: int | None
    provision: dict[str, Any]
    note: str | None
    salvage_ref: str | None
    folder_id: Annotated[str, 48] | None
    stacked_on: dict[str, str] | None
    created_at: Instant
    removed_at: Instant | None


class DependencyRow(TypedDict):
    """A task that another one waits for.

    ``clashes_sha``: the head of the parent's work on which, together with that of the others, the dependent could not begin.
    """

    task_id: Id
    depends_on: Id
    clashes_sha: Sha | None
