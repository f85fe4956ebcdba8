"""What became of a task: one word for its state and that of its merge request together."""

from __future__ import annotations

from corral.models.states import MergeState, TaskStatus, _Text


class Outcome(_Text):
    """Where a completed task's work stands; a task that is not completed has its state as its outcome."""

    QUEUED = "queued"
    VERIFYING = "verifying"
    HELD = "held"
    LANDED = "landed"
    CONFLICT = "conflict"
    RED = "red"
    NOTHING_TO_LAND = "nothing to land"
    NOT_LANDED = "not landed"
    """Its merge request was cancelled."""
    DISMISSED = "dismissed"
    """It failed or came back, and a person said that nothing more is to be done about it."""


FAILURES = ("failed", "dead", "conflict", "red")
"""Outcomes that stay open until somebody tries again, or dismisses them."""

_OF_MERGES = {
    MergeState.QUEUED: Outcome.QUEUED,
    MergeState.VERIFYING: Outcome.VERIFYING,
    MergeState.HELD: Outcome.HELD,
    MergeState.LANDED: Outcome.LANDED,
    MergeState.CONFLICT: Outcome.CONFLICT,
    MergeState.FAILED: Outcome.RED,
    MergeState.SUPERSEDED: Outcome.NOT_LANDED,
    MergeState.CANCELLED: Outcome.NOT_LANDED,
}


def of_merge(state: str, *, dismissed: bool) -> str:
    """What became of a merge request that belongs to no task."""
    found = _OF_MERGES[MergeState(state)]
    return str(Outcome.DISMISSED if dismissed and found in FAILURES else found)


def of_task(status: str, merge_state: str | None, *, dismissed: bool) -> str:
    """What became of a task.

    Args:
        status: Its state.
        merge_state: That of its merge request that counts; None: it has none.
        dismissed: Whether a person dismissed the task or that request.
    """
    if status == TaskStatus.COMPLETED:
        return str(Outcome.NOTHING_TO_LAND) if merge_state is None else of_merge(merge_state, dismissed=dismissed)
    return str(Outcome.DISMISSED) if dismissed and status in FAILURES else str(status)
