"""Waiting: what is answered about the tasks and merge requests that are waited for."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from corral.core.answers import Instant
from corral.core.states import MergeState, TaskStatus
from corral.observe.view.api import NeedView
from corral.work.merges.wire import OutcomeOfMerge
from corral.work.tasks.api import TaskOutcome

MergeStanding = MergeState | Literal["missing", "taken back"]
"""The state of a request, or what became of one that had landed when its target was rewound."""


class WaitedTask(TypedDict):
    """A task that is waited for.

    ``reason``: why it failed, or its request has not landed, where that is known; ``delay``: why it does not start, or who has
    taken it. Among many only the first have these two.
    """

    task_id: str
    number: int
    title: str
    status: TaskStatus
    merge_state: MergeStanding | None
    merge_id: str | None
    outcome: TaskOutcome
    reason: NotRequired[str]
    delay: NotRequired[str]


class WaitedMerge(TypedDict):
    """A merge request that is waited for; ``reason``: why it has not landed, where that is known."""

    merge_id: str
    title: str
    state: MergeStanding
    outcome: OutcomeOfMerge
    reason: NotRequired[str]


class PausedTarget(TypedDict):
    """A target on which nothing lands at present; ``look_at``: when that is tried again."""

    target: str
    reason: str
    look_at: Instant


class Waited(TypedDict):
    """Where work stands.

    ``done``: all of it landed or had nothing to land; ``waits_for_person``: nothing that is left goes on before a person has
    done something; ``needs_you``: what keeps it.
    """

    tasks: list[WaitedTask]
    merges: list[WaitedMerge]
    done: bool
    waits_for_person: bool
    paused: list[PausedTarget]
    needs_you: list[NeedView]


class WaitAnswer(Waited):
    """The same over HTTP; ``settled``: nothing more happens to it by itself."""

    settled: bool
