"""Rows of the record of agents."""

from __future__ import annotations

from typing import Any, TypedDict


class AgentVersionRow(TypedDict):
    """A text that an agent's definition has worked with."""

    agent: str
    content_hash: str
    seq: int
    version: str
    content: str
    changelog: str | None
    author: str | None
    reason: str | None
    created_at: str


class AgentChoiceRow(TypedDict):
    """A version that an agent works by instead of what its file says; ``share`` None: pinned, all of its tasks."""

    choice_id: str
    agent: str
    content_hash: str
    from_hash: str | None
    share: float | None
    state: str
    reason: str | None
    created_at: str
    ended_at: str | None
    seen_at: str | None


class ImprovementRow(TypedDict):
    """An improvement of an agent's definition."""

    improvement_id: str
    agent: str
    state: str
    base_hash: str
    new_hash: str | None
    material: str
    deploys: bool
    plan: dict[str, Any] | None
    report: dict[str, Any] | None
    reason: str | None
    created_at: str
    ended_at: str | None


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
    """An attempt by an agent; the outcome and what follows are None until retention deletes the attempt itself."""

    task_id: str
    number: int
    agent: str
    content_hash: str | None
    task_type: str
    model: str | None
    began_at: str
    outcome: str | None
    duration_s: float | None
    tokens: int | None
    cost_usd: float | None
    choice_id: str | None


class FeedbackRow(TypedDict):
    """A person's opinion of a task's work."""

    task_id: str
    rating: int | None
    comment: str | None
    given_at: str


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
