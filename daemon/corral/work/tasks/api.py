"""Tasks: what is asked for, and what is answered."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StringConstraints, WithJsonSchema
from typing_extensions import NotRequired, TypedDict

from corral.coordination.sessions.api import Acting
from corral.core.answers import Instant, checked
from corral.core.outcomes import Outcome
from corral.core.states import AttemptOutcome, Combine, RunnerName, TaskStatus
from corral.work.merges.wire import MergeOfTask

TITLE_LIMIT = 500
"""Characters."""


def _one_line(text: object) -> object:
    """Replace line breaks and control characters with spaces: a title is a commit subject and a table row."""
    if (
        not isinstance(text, str) or len(text) > 100 * TITLE_LIMIT
    ):  # too long anyway: do not spend time on each character
        return text
    return " ".join("".join(" " if unicodedata.category(char) == "Cc" else char for char in text).split())


def _storable(text: str) -> str:
    """Refuse lone surrogates, which cannot be stored, and NUL, which cannot be an argument."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("is not valid Unicode text") from error
    if "\0" in text:
        raise ValueError("contains a NUL character")
    return text


Text = Annotated[str, AfterValidator(_storable)]
Title = Annotated[Text, BeforeValidator(_one_line), StringConstraints(min_length=1, max_length=TITLE_LIMIT)]
Body = Annotated[Text, StringConstraints(min_length=1, max_length=1_000_000)]
Reason = Annotated[Text, StringConstraints(max_length=2000)]
StateKey = Annotated[Text, StringConstraints(min_length=1, max_length=256)]
"""A key of what agents share about a task."""
Short = Annotated[Text, StringConstraints(min_length=1, max_length=128)]


class Cancellation(BaseModel):
    """Why a task is cancelled."""

    reason: Reason = Field(
        default="Cancelled.", description="Reason, stored with the task.", examples=["It is not needed any more."]
    )
    convention: bool = Field(default=False, description="End it as failed, with error_code cancelled_by_orchestrator.")


class Claim(Acting):
    """The session that asks for work; without a session, the person at the keyboard.

    The same ``idempotency_key`` again gives the same task, while it is held.
    """

    task_types: list[Short] = Field(
        default_factory=list, max_length=64, description="Only tasks of this type.", examples=[["review"]]
    )
    session_id: Short | None = Field(None, examples=["s-1"])
    idempotency_key: Short | None = None


class Completion(Acting):
    """How a claimed task ended; ``session_id``: the session that claimed it."""

    success: bool = Field(description="Whether it succeeded; a failure is not retried.", examples=[True])
    result: dict[str, Any] | None = Field(None, description="Result: a JSON object.", examples=[{"findings": 0}])
    error_message: Reason | None = Field(None, description="Reason of the failure.")
    session_id: Short | None = Field(None, examples=["s-1"])


class Opinion(BaseModel):
    """A person's opinion of a task's work: a number, or words, or both."""

    rating: Annotated[int, Field(ge=1, le=5, strict=True)] | None = Field(
        None, description="1 (useless) to 5 (excellent).", examples=[4]
    )
    comment: Reason | None = Field(None, description="Praise or complaint.", examples=["Good tests."])


NewPriority = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "priority": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 10,
                    "description": "10 first.",
                    "examples": [9],
                }
            },
            "required": ["priority"],
        }
    ),
]
"""The priority that a task gets, 0 to 10; the operation itself says what is wrong with another."""

Result = dict[str, Any] | None
"""What a task came to: free fields, by whoever did it; null: nothing."""
TaskWord = Annotated[str, checked(*TaskStatus.values(), *Outcome.values())]
"""A status or an outcome, as a list of tasks is asked for."""
TaskOutcome = TaskStatus | Outcome
"""How a task stands, its merge request taken into account: for a completed task that of the request, else its status."""


class TaskState(TypedDict):
    """A task, and its status now."""

    task_id: str
    status: TaskStatus


class Cancelled(TaskState):
    """A task that is cancelled, or about to be; ``dependents``: those that wait for it and fail with it."""

    dependents: NotRequired[list[str]]


class Submitted(TaskState):
    """A task that is queued."""

    number: int
    title: str


class BatchSubmitted(TypedDict):
    """The tasks that are queued, in the order of the batch; ``queued``: how many."""

    task_ids: list[str]
    numbers: list[int]
    queued: int


class Task(TaskState):
    """A task in a list; ``progress``: what its newest attempt said last."""

    number: int
    title: str
    outcome: TaskOutcome
    priority: int
    agent: str | None
    template: str | None
    created_at: Instant
    progress: str | None
    parent_task_id: str | None
    step: str | None


class TaskRead(TaskState):
    """A task as coordinators read it; ``input_data`` and ``result`` have free fields."""

    task_type: str
    input_data: dict[str, Any] | None
    result: Result
    error_message: str | None
    priority: int
    created_at: Instant
    completed_at: Instant | None


class Usage(TypedDict):
    """What the models of attempts used; ``turns`` are theirs."""

    input_tokens: int
    output_tokens: int
    cost_usd: float
    turns: int


class Attempt(TypedDict):
    """An attempt at a task; ``outcome``, ``ended_at`` and ``duration_s`` (seconds) are null while it lasts."""

    number: int
    outcome: AttemptOutcome | None
    session_id: str
    agent: str | None
    runner: RunnerName | None
    model: str | None
    host: str | None
    branch: str | None
    claimed_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    error_code: str | None
    error_message: str | None
    memory_mb: int | None
    duration_s: float | None
    usage: Usage


class AttemptLimits(TypedDict):
    """The limits of each attempt that are set."""

    max_turns: NotRequired[int]
    max_tokens: NotRequired[int]
    max_cost_usd: NotRequired[float]
    memory_mb: NotRequired[int]


class TaskEvent(TypedDict):
    """Something that happened to a task; ``data`` has the fields of its kind."""

    kind: str
    at: Instant
    data: dict[str, Any]


class Step(TaskState):
    """A task that another one is made of; ``step``: its name among the steps, ``wait_for``: the ids of those before it."""

    number: int
    step: str
    title: str
    outcome: TaskOutcome
    wait_for: list[str]


class TaskFacts(Task):
    """All that is kept of a task.

    ``usage`` and ``duration_s`` (seconds) are those of its attempts together, ``memory_mb`` is the most of any; ``worktree`` is a
    path while that exists; ``merge`` is null where there is nothing to merge; ``agents``: how many do it, each by itself;
    ``followers``: the ids of the tasks that it leads; ``state``: the versions of its shared values by key; ``attempt_history``:
    its attempts, ``history``: its last 200 events, both oldest first. ``input_data``, ``metadata`` and ``agent_requirements``
    have free fields.
    """

    error_code: str | None
    error_message: str | None
    attempts: int
    result: Result
    branch: str | None
    task_type: str
    input_data: dict[str, Any] | None
    runner: RunnerName | None
    description: str | None
    command: str | None
    prompt: str | None
    thread_id: str | None
    agent_requirements: dict[str, Any] | None
    deadline_at: Instant | None
    target: str | None
    submitted_by: str | None
    session_id: str | None
    timeout_s: float | None
    max_retries: int
    limits: AttemptLimits
    not_before_at: Instant | None
    started_at: Instant | None
    completed_at: Instant | None
    cancel_reason: str | None
    faults: int
    crashes: int
    metadata: dict[str, Any] | None
    combine: Combine | None
    worktree: str | None
    usage: Usage
    duration_s: float
    memory_mb: int | None
    state: dict[str, int]
    attempt_history: list[Attempt]
    merge: MergeOfTask | None
    wait_for: list[str]
    agents: int | None
    followers: list[str]
    steps: list[Step]
    claims: list[str]
    history: list[TaskEvent]


class TaskDetail(TaskFacts):
    """The same of any task; ``delay``: why it does not start yet, where it waits for more than its turn."""

    delay: str | None


class HeldTask(TypedDict):
    """A task that a session claimed before and has not completed."""

    task_id: str
    title: str
    lease_expires_at: Instant


class _Answered(TypedDict):
    also_held: NotRequired[list[HeldTask]]


class ClaimedTask(_Answered):
    """The task that the session has now; ``also_held``: what it had claimed before, where there is any.

    ``description`` is the title where the task has none; ``lease_expires_at`` moves on while the session lives; a person's
    does not.
    """

    success: Literal[True]
    task_id: str
    task_type: str
    title: str
    description: str
    input_data: dict[str, Any] | None
    priority: int
    thread_id: str | None
    agent_requirements: dict[str, Any] | None
    lease_expires_at: Instant
    fencing_token: int
    attempts: int
    deadline: Instant | None


class NothingClaimed(_Answered):
    """Why there is no task for the session."""

    success: Literal[False]
    reason: Literal["no_tasks_available", "work_paused"]


Claimed = ClaimedTask | NothingClaimed
"""What a claim came to."""


class Completed(TaskState):
    """A claimed task that has ended; ``merge_id``: where its branch was submitted, ``uncommitted``: paths in no commit."""

    success: bool
    merge_id: NotRequired[str]
    uncommitted: NotRequired[list[str]]


class Conversation(TypedDict):
    """A conversation to resume, and the client's ``command``; ``created``: its worktree was made again for it."""

    task_id: str
    attempt: int
    session_id: str
    worktree: str
    branch: str | None
    created: bool
    command: str


class ConversationLine(Conversation):
    """The same with the line for a shell that resumes it."""

    line: str


class LogText(TypedDict):
    """An output up to now; ``complete``: no more will come."""

    text: str
    complete: bool


class Output(TypedDict):
    """A part of the output of an attempt, as a person reads it."""

    kind: Literal["output"]
    attempt: int
    text: str


class Followed(TypedDict):
    """The next part of what happened to a task: events and output in their order.

    ``next``: where the following part begins; ``complete``: the task has ended, what it made has landed or come back, and no more
    will come.
    """

    task_id: str
    status: TaskStatus
    outcome: TaskOutcome
    entries: list[TaskEvent | Output]
    next: str
    complete: bool


class Reprioritized(TypedDict):
    """The priority of a task now."""

    task_id: str
    priority: int


class Feedback(TypedDict):
    """What a person thinks of a task's work; ``agent``: who did it last, null where no agent did."""

    task_id: str
    agent: str | None
    rating: int | None
    comment: str | None
