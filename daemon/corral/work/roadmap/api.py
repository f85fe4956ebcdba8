"""The roadmap and its supervisor: what is answered."""

from __future__ import annotations

from typing_extensions import TypedDict

from corral.core.answers import Instant
from corral.work.trust.api import UnapprovedCommand


class RoadmapProblem(TypedDict):
    """An error in the roadmap, or a note on a task of it; ``id``: the task, null: it is about the file.

    ``line``: from 1, null: unknown; ``remedy`` null: correct the file.
    """

    line: int | None
    id: str | None
    message: str
    remedy: str | None


class TaskCounts(TypedDict):
    """Tasks of the roadmap by their status in the file."""

    pending: int
    in_progress: int
    blocked: int
    done: int


class NextTask(TypedDict):
    """A task of the roadmap that comes next; ``priority``: 0 to 10."""

    id: str
    title: str
    priority: int


class Supervision(TypedDict):
    """How the roadmap stands; ``supervised``: tasks of it are being picked, since ``since_at``.

    ``error``: why nothing of it can be read or written; ``problems``: errors of tasks, which are not worked on; ``notes``: tasks
    that wait for somebody. ``open``: its tasks in the queue; ``room``: how many more would fit now.
    """

    supervised: bool
    since_at: Instant | None
    file: str
    error: RoadmapProblem | None
    problems: list[RoadmapProblem]
    notes: list[RoadmapProblem]
    unapproved: list[UnapprovedCommand]
    tasks: TaskCounts
    open: int
    room: int
    next: list[NextTask]


class SupervisionStopped(Supervision):
    """The same once it was stopped; ``was_supervised``: tasks of it were being picked before."""

    was_supervised: bool
