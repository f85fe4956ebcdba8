"""Outcomes: one word for the states of a task and its merge request together."""

from __future__ import annotations

from corral.models.states import MergeState, TaskStatus, _Text


class Outcome(_Text):
    """The outcome of a completed task; for any other task its state is the outcome."""

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
    """It failed or came back, and a person dismissed it."""


FAILURES = ("failed", "dead", "conflict", "red")
"""Outcomes that stay open until somebody retries or dismisses them."""

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
    """The outcome of a merge request without a task."""
    found = _OF_MERGES[MergeState(state)]
    return str(Outcome.DISMISSED if dismissed and found in FAILURES else found)


def of_task(status: str, merge_state: str | None, *, dismissed: bool) -> str:
    """The outcome of a task.

    Args:
        status: Its state.
        merge_state: The state of its current merge request; None: it has none.
        dismissed: Whether a person dismissed the task or that request.
    """
    if status == TaskStatus.COMPLETED:
        return str(Outcome.NOTHING_TO_LAND) if merge_state is None else of_merge(merge_state, dismissed=dismissed)
    return str(Outcome.DISMISSED) if dismissed and status in FAILURES else str(status)
