"""Loops: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypedDict

from corral.core.answers import Instant
from corral.core.states import TaskStatus
from corral.work.loops.spec import Verdict
from corral.work.merges.api import ChangedFiles
from corral.work.merges.wire import StateOfMerge
from corral.work.tasks.api import Reason

MOST_ITERATION = 2**31
"""The largest number of an iteration that is looked for."""


class LoopStop(BaseModel):
    """Why it is stopped."""

    reason: Reason = Field(
        default="The loop was stopped.", description="Reason, kept with it.", examples=["Good enough."]
    )


class NewLimits(BaseModel):
    """New limits, counted from where it goes on; null: as before."""

    max_iterations: Annotated[int, Field(ge=1, le=1_000_000)] | Literal["unlimited"] | None = Field(
        default=None, examples=[20]
    )
    timeout_s: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Time of all iterations together, from where it goes on (default: as before).",
    )


class ChosenIteration(BaseModel):
    """An iteration."""

    iteration: int | None = Field(
        default=None, ge=1, le=MOST_ITERATION, description="Which one (default: the best).", examples=[2]
    )


class _Timed(TypedDict):
    timeout_s: NotRequired[float]


class Tests(_Timed):
    """Good with exit code 0; ``junit``: the report that the command writes."""

    kind: Literal["tests"]
    command: str
    junit: NotRequired[str]


class Threshold(_Timed):
    """Good when the number that the command prints meets the target; ``plateau``: iterations without a better one."""

    kind: Literal["threshold"]
    command: str
    target: str
    pattern: NotRequired[str]
    path: NotRequired[str]
    plateau: NotRequired[int]


class Custom(_Timed):
    """A condition of the user's own: a command, or a function of a file in the worktree."""

    kind: Literal["custom"]
    command: NotRequired[str]
    function: NotRequired[str]


class Judge(_Timed):
    """Good when Claude says that the work meets a rubric; ``votes``: how often it is asked."""

    kind: Literal["judge"]
    rubric: str
    votes: int
    same_model: bool
    model: NotRequired[str]


Criterion = Tests | Threshold | Custom | Judge


class Best(TypedDict):
    """The best iteration, and the commit that it left."""

    iteration: int
    head_sha: str
    verdict: Verdict


class Loop(TypedDict):
    """Where a loop stands; it has the id of its task, and ``status`` is that task's.

    ``counted_iterations`` and ``elapsed_s`` are what counts for its limits: since it was last resumed. ``max_iterations`` null:
    any number. ``target`` null: its first attempt has not begun. ``any``: one criterion of ``until`` is enough.
    """

    task_id: str
    title: str
    status: TaskStatus | Literal["deleted"]
    error_code: str | None
    error_message: str | None
    iterations: int
    counted_iterations: int
    running_iteration: int | None
    max_iterations: int | None
    timeout_s: float
    elapsed_s: float
    verdict: Verdict | None
    best: Best | None
    until: list[Criterion]
    any: bool
    target: str | None
    created_at: Instant


class MergeOfLoop(TypedDict):
    """The merge request of what a loop made."""

    merge_id: str
    state: StateOfMerge


class LoopDetail(Loop):
    """Where a loop stands, with its merge request that counts; null: there is none."""

    merge: MergeOfLoop | None


class Evaluation(TypedDict):
    """What a criterion said of an iteration, or ``work`` that its worker failed, ``landing`` that it conflicts.

    ``value``: the number or the counts that it measured, each kind its own; null: nothing.
    """

    kind: Literal["tests", "threshold", "custom", "judge", "work", "landing"]
    verdict: Verdict
    value: Any
    evidence: str


class IterationUsage(TypedDict, total=False):
    """The use of an iteration's worker and of its judges; empty where the record of it is damaged."""

    input_tokens: int
    output_tokens: int
    cost_usd: float
    turns: int


class IterationConversation(TypedDict):
    """The iteration whose conversation an agent went on in, or why it began a new one."""

    continues: int | None
    lost: str | None


class Iteration(TypedDict):
    """A completed iteration: from ``base_sha`` to ``head_sha``.

    ``actions``: the last texts, tool calls and errors of its agent; ``told``: what the agent was told of the one before.
    ``result``: what its worker left, each runner its own fields. ``conversation`` null: its runner holds none.
    """

    iteration: int
    started_at: Instant
    duration_s: float
    verdict: Verdict
    evaluations: list[Evaluation]
    actions: list[str]
    result: dict[str, Any] | None
    usage: IterationUsage
    conversation: IterationConversation | None
    best: bool
    told: str
    damaged: bool
    attempt: int
    session_id: str
    base_sha: str
    head_sha: str
    ended_at: Instant


class LoopDiff(ChangedFiles):
    """The changes between two iterations; ``before`` 0: where the loop began."""

    task_id: str
    before: int
    after: int
    base_sha: str
    head_sha: str
