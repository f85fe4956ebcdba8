"""Dead letters: what is asked for, and what is answered."""

from __future__ import annotations

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from corral.core.answers import Instant
from corral.core.states import RunnerName
from corral.work.tasks.api import Short, TaskFacts

MOST_NAMED = 1000
"""Tasks in one call."""


class DeadTaskChoice(BaseModel):
    """Dead tasks, all of those that are named or none."""

    task_ids: list[Short] = Field(
        default_factory=list,
        max_length=MOST_NAMED,
        description="Task ids, or their first characters.",
        examples=[["2618ec66-8460-4ab7-a7d5-be211917ca79"]],
    )
    all: bool = Field(default=False, description="All tasks of the queue.")


class DeadTask(TypedDict):
    """A task that is out of retries; ``attempts``: how many failed."""

    task_id: str
    title: str
    priority: int
    error_code: str | None
    error_message: str | None
    attempts: int
    agent: str | None
    runner: RunnerName | None
    created_at: Instant
    completed_at: Instant


class DeadTaskFacts(TaskFacts):
    """All that is kept of it; ``log_tail``: the end of its last attempt's output."""

    log_tail: str


class Acted(TypedDict):
    """The ids of the tasks that are not dead any more."""

    task_ids: list[str]
