"""When a failed attempt is tried again, and when it is given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.models.states import TaskStatus


@dataclass(frozen=True)
class Verdict:
    """What becomes of a task whose attempt failed.

    Attributes:
        status: ``pending`` (again), ``failed`` (never retryable) or ``dead`` (out of retries).
        delay_s: Seconds until it may start again; 0 unless pending.
    """

    status: TaskStatus
    delay_s: float = 0.0


def backoff_s(attempts: int, *, initial_s: float, max_s: float) -> float:
    """Seconds to wait after the ``attempts``-th attempt (from 1): doubles each time, bounded."""
    # 2**64 times anything is beyond every bound, and a larger exponent would overflow a float
    return float(min(max_s, initial_s * 2 ** min(attempts - 1, 64)))


def judge(attempts: int, max_retries: int, *, retryable: bool, initial_s: float, max_s: float) -> Verdict:
    """Decide about a failed attempt.

    Args:
        attempts: How many were claimed so far, this one included.
        max_retries: How many may follow the first.
        retryable: Whether another try could end otherwise.
        initial_s: The first wait, seconds.
        max_s: The longest wait, seconds.
    """
    if not retryable:
        return Verdict(TaskStatus.FAILED)
    if attempts > max_retries:
        return Verdict(TaskStatus.DEAD)
    return Verdict(TaskStatus.PENDING, backoff_s(attempts, initial_s=initial_s, max_s=max_s))
