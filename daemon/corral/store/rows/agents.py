"""Rows of the record of agents."""

from typing import Annotated, Any, TypedDict

from corral.store.rows import Id, Instant, Name, Sha, State, Word


class AgentVersionRow(TypedDict):
    """A text that an agent's definition has worked with; ``agent`` is its name without case; ``seq`` counts its versions."""

    agent: Name
    content_hash: Sha
    seq: int
    version: Annotated[str, 32]
    content: str
    changelog: str | None
    author: str | None
    reason: str | None
    created_at: Instant


class AgentChoiceRow(TypedDict):
    """A version that an agent works by instead of what its file says; ``share`` None: pinned, all of its tasks."""

    choice_id: Id
    agent: Name
    content_hash: Sha
    from_hash: Sha | None
    share: float | None
    state: State
    reason: str | None
    created_at: Instant
    ended_at: Instant | None
    seen_at: Instant | None


class ImprovementRow(TypedDict):
    """An improvement of an agent's definition: the meta-agent's input and plan, and how the versions compared."""

    improvement_id: Id
    agent: Name
    state: State
    base_hash: Sha
    new_hash: Sha | None
    material: str
    deploys: bool
    plan: dict[str, Any] | None
    report: dict[str, Any] | None
    reason: str | None
    created_at: Instant
    ended_at: Instant | None


class RunningChoice(TypedDict):
    """A choice in force, with the text of its version; None: the version is gone."""

    choice_id: str
    agent: str
    content_hash: str
    from_hash: str | None
    share: float | None
    version: str | None
    content: str | None


class ArmTask(TypedDict):
    """The first counted attempt at a task of a rollout; ``merge_state`` is that of the task's first merge request."""

    task_id: str
    content_hash: str
    outcome: str | None
    merge_state: str | None


class AgentRunRow(TypedDict):
    """An attempt by an agent; the outcome and what follows are None until retention deletes the attempt, which has it until then.

    ``choice_id`` is the rollout that chose the version.
    """

    task_id: Id
    number: int
    agent: Name
    content_hash: Sha | None
    task_type: Word
    model: Name | None
    began_at: Instant
    outcome: State | None
    duration_s: float | None
    tokens: int | None
    cost_usd: float | None
    choice_id: Id | None


class FeedbackRow(TypedDict):
    """A person's opinion of a task's work; the last word counts."""

    task_id: Id
    rating: int | None
    comment: str | None
    given_at: Instant


class AgentWork(TypedDict):
    """An attempt by an agent with what it came to; None while it runs."""

    task_id: str
    number: int
    agent: str
    content_hash: str | None
    task_type: str
    model: str | None
    outcome: str | None
    duration_s: float | None
    started_at: str | None
    ended_at: str | None
    tokens: int
    cost_usd: float


class AgentMerge(TypedDict):
    """A merge request of a task that an agent worked on."""

    task_id: str
    state: str


class DeletedAttempt(TypedDict):
    """An attempt that retention deletes."""

    task_id: str
    number: int
    outcome: str | None
    started_at: str | None
    ended_at: str | None
    tokens: int
    cost_usd: float
