"""Which workers are stopped, and why: a decision about each by itself, and one about all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corral.runners.blame import LIMIT_REACHED, WORKER_LOST
from corral.store.rows.tasks import TaskRow
from corral.work.tasks.attempts import INTERRUPTED
from corral.work.workers.in_flight import Attempt
from corral.work.workers.limits import MEMORY, Throttle

Reason = tuple[str, str]
"""An error code, and a line for a person."""


def reason_to_stop(row: TaskRow | None, *, all_end: bool, is_killed: bool) -> Reason | None:
    """The first reason to stop a worker; None: it goes on.

    Args:
        row: Its task, where that is still its own.
        all_end: Whether the daemon ends all work.
        is_killed: Whether a person ended this one.
    """
    if row is None:
        return WORKER_LOST, "The task was taken away from this worker."
    if row["cancel_reason"] is not None:
        return "cancelled", str(row["cancel_reason"])
    if all_end:
        return INTERRUPTED, "The daemon was stopped."
    if is_killed:
        return "agent_killed", "Its worker was ended by `corral agent kill`."
    return None


def over_limits(passed: Sequence[Throttle], attempts: Sequence[Attempt]) -> Iterator[tuple[Attempt, Throttle, Reason]]:
    """The workers that are stopped because a limit of all together is passed: for memory the youngest, else all of models.

    Args:
        passed: The limits.
        attempts: Those in flight, the youngest last.
    """
    for throttle in passed:
        users = [attempt for attempt in attempts if attempt.is_at_work and throttle.holds(attempt.task["runner"])]
        if throttle.limit == MEMORY:
            is_ending = any(attempt.stopping and not attempt.finishing for attempt in attempts)
            users = [] if is_ending else users[-1:]  # checked again once its memory is free
        for attempt in users:
            yield attempt, throttle, (LIMIT_REACHED, f"It was stopped: {throttle.reason}")
