"""Outcomes, one word for the states of a task and its merge request together; and the names of what needs a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corral.core.states import MergeState, TaskStatus, _Text


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
    """Its merge request was cancelled."""
    DISMISSED = "dismissed"
    """It failed or came back, and a person dismissed it."""


NEEDS_APPROVAL = "Waits for approval"
"""Prefix of the reason of a merge request that needs a person's approval."""

FAILURES = ("failed", "dead", "conflict", "red")
"""Outcomes that stay open until somebody retries or dismisses them."""

NEEDS = {
    "merge_approval": "approval",
    "held_merge": "held",
    "returned_merge": "came back",
    "failed_task": "failed task",
    "waiting_session": "question",
    "unguarded_session": "unguarded",
    "stalled_session": "stalled",
    "red_target": "target red",
    "paused_target": "queue stops",
    "rewound_target": "rewound",
    "paused_work": "paused",
    "paused_claiming": "claims stop",
    "limit_reached": "limit",
    "kept_worktree": "worktree",
    "task_cannot_start": "no start",
    "unverified_merge": "unverified",
    "untrusted_commands": "untrusted",
    "unapproved_roadmap": "roadmap",
    "roadmap_problem": "roadmap",
    "unannounced_changes": "changes",
    "outdated_daemon": "old daemon",
    "crashing_daemon": "crashes",
}
"""The kinds of what needs a person, in a word or two: every face calls them so."""
CONFLICT = "conflict"

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
    if state in (Outcome.MISSING, Outcome.TAKEN_BACK):
        return state
    outcome = _OF_MERGES[MergeState(state)]
    return str(Outcome.DISMISSED if dismissed and outcome in FAILURES else outcome)


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


def need_name(need: Mapping[str, Any]) -> str:
    """The name of a condition that needs a person, as every face calls it.

    Args:
        need: The condition as it is on the wire: its ``kind`` and its ``what``.
    """
    if need["kind"] == "returned_merge" and " conflicts with " in need["what"]:
        return CONFLICT
    if need["kind"] == "failed_task" and "is dead: " in need["what"]:
        return "dead task"
    return NEEDS.get(need["kind"], str(need["kind"]).replace("_", " "))
