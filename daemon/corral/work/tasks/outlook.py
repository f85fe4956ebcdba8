"""The outlook of a dependency, for the task that waits for it."""

from __future__ import annotations

from enum import Enum

from corral.core.outcomes import Outcome
from corral.core.states import OPEN_MERGES, MergeState, TaskStatus

_HOPELESS = (TaskStatus.FAILED, TaskStatus.DEAD, TaskStatus.CANCELLED)


class Outlook(Enum):
    """The state of a dependency for the task that waits for it."""

    OPEN = "open"
    MET = "met"
    LOST = "lost"


def outlook(status: str, merge_state: str | None, unblock_on: str) -> Outlook:
    """Judge one dependency.

    Args:
        status: The parent's state.
        merge_state: The state of its newest merge request, or what became of one that had landed; None if it had nothing to
            merge (which counts as landed). Work that a person let go counts as landed too: the target is as that person wants it.
        unblock_on: ``landed``, or ``completed``: its work may still be on the way to its target.
    """
    if status in _HOPELESS:
        return Outlook.LOST
    if status != TaskStatus.COMPLETED:
        return Outlook.OPEN
    if merge_state in (None, MergeState.LANDED, Outcome.TAKEN_BACK):
        return Outlook.MET
    if merge_state in OPEN_MERGES:
        return Outlook.MET if unblock_on == "completed" else Outlook.OPEN
    return Outlook.OPEN if merge_state == Outcome.MISSING else Outlook.LOST
