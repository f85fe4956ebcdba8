"""Outcomes: one word for the states of a task and its merge request together."""

from __future__ import annotations

from corral.core.states import OPEN_MERGES, MergeState, TaskStatus, _Text


class Outcome(_Text):
    """The outcome of a completed task; for any other task its state is the outcome."""

    QUEUED = "queued"
    VERIFYING = "verifying"
    HELD = "held"
    LANDED = "landed"
    MISSING = "missing"
    """It had landed, and its target was rewound: a person is to decide."""
    TAKEN_BACK = "taken back"
    """It had landed, and a person accepted that its target was rewound."""
    CONFLICT = "conflict"
    RED = "red"
    NOTHING_TO_LAND = "nothing to land"
    NOT_LANDED = "not landed"
    """Its merge request was cancelled, or a newer one took its place."""
    DISMISSED = "dismissed"
    """It failed or came back, and a person dismissed it."""


NEEDS_APPROVAL = "Waits for approval"
"""Prefix of the reason of a merge request that needs a person's approval."""

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


MERGE_WORDS = tuple(dict.fromkeys((*Outcome.values(), *MergeState.values())))
"""An outcome or a state, as a list of merge requests is asked for."""

STANDINGS = (*MergeState, Outcome.MISSING, Outcome.TAKEN_BACK)
"""The states of a merge request, and what can have become of one that had landed."""


def of_merge(state: str, *, dismissed: bool, replaced: bool = False) -> str:
    """The outcome of a merge request; for a completed task that of its request.

    Args:
        state: One of :data:`STANDINGS`.
        replaced: Whether a newer request of its branch took its place after it came back.
    """
    if state in (Outcome.MISSING, Outcome.TAKEN_BACK):
        return state
    outcome = _OF_MERGES[MergeState(state)]
    if outcome in FAILURES and (replaced or dismissed):
        return str(Outcome.DISMISSED if dismissed else Outcome.NOT_LANDED)
    return str(outcome)


def of_task(status: str, merge_state: str | None, *, dismissed: bool) -> str:
    """The outcome of a task.

    Args:
        status: Its state.
        merge_state: The state of its current merge request; None: it has none.
        dismissed: Whether a person dismissed the task or that request.
    """
    if status == TaskStatus.COMPLETED:
        return str(Outcome.NOTHING_TO_LAND) if merge_state is None else of_merge(merge_state, dismissed=dismissed)
    if not dismissed or status not in FAILURES:
        return str(status)
    # A loop that has not converged, and an iteration of which was queued all the same.
    is_landing = merge_state == MergeState.LANDED or merge_state in OPEN_MERGES
    return of_merge(merge_state, dismissed=True) if merge_state and is_landing else str(Outcome.DISMISSED)
