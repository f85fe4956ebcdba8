"""When an attempt that ended badly is followed by another, and when the task is given up. Pure.

Three counts, for three kinds of bad ends (:mod:`corral.runners.blame`): ``attempts`` for what the task did wrong; ``faults``
for starts that the machine prevented, which are tried again for ever; ``crashes`` for ends by violence, of the daemon or of
the worker while the task ran, where the task may be the cause: bounded by ``tasks.max_crashes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict
from zlib import crc32

from corral.core.states import TaskStatus

JITTER = 0.1
"""The largest share of a wait by which it is changed, so that tasks that failed together are not all tried at once."""


@dataclass(frozen=True)
class Verdict:
    """Retry or dead: the next state of a task whose attempt failed.

    Attributes:
        status: ``pending`` (again), ``failed`` (never retryable) or ``dead`` (out of retries).
        delay_s: Seconds until it may start again; 0 unless pending.
    """

    status: TaskStatus
    delay_s: float = 0.0


class Backoff(TypedDict):
    """The arguments of :func:`backoff_s` that settings and the task decide about."""

    initial_s: float
    max_s: float
    seed: str


def backoff_s(attempts: int, *, initial_s: float, max_s: float, seed: str = "") -> float:
    """Seconds to wait after the ``attempts``-th attempt (from 1): doubles each time, bounded.

    Args:
        seed: The task, by which the wait is up to a tenth longer, or shorter where it would be too long; empty: as it is.
    """
    # 2**64 times anything is beyond every bound, and a larger exponent would overflow a float
    pause = float(min(max_s, initial_s * 2 ** min(attempts - 1, 64)))
    change = JITTER * pause * crc32(f"{seed}/{attempts}".encode()) / 2**32 if seed else 0.0
    return round(pause + change if pause + change <= max_s else pause - change, 3) if change else pause


def judge(
    attempts: int, max_retries: int, *, retryable: bool, initial_s: float, max_s: float, seed: str = ""
) -> Verdict:
    """Decide about a failed attempt.

    Args:
        attempts: How many were claimed so far, this one included.
        max_retries: How many may follow the first.
        retryable: Whether another try could end otherwise.
        initial_s: The first wait, seconds.
        max_s: The longest wait, seconds.
        seed: As in :func:`backoff_s`.
    """
    if not retryable:
        return Verdict(TaskStatus.FAILED)
    if attempts > max_retries:
        return Verdict(TaskStatus.DEAD)
    return Verdict(TaskStatus.PENDING, backoff_s(attempts, initial_s=initial_s, max_s=max_s, seed=seed))


def judge_fault(faults: int, *, initial_s: float, max_s: float, seed: str = "") -> Verdict:
    """Decide about a task whose worker the machine did not let start.

    Args:
        faults: How many starts were prevented in a row, this one included.
        initial_s: The first wait, seconds.
        max_s: The longest wait, seconds.
        seed: As in :func:`backoff_s`.
    """
    return Verdict(TaskStatus.PENDING, backoff_s(faults, initial_s=initial_s, max_s=max_s, seed=seed))


def judge_crash(crashes: int, max_crashes: int, *, initial_s: float, max_s: float, seed: str = "") -> Verdict:
    """Decide about a task that was running when its daemon or its worker died.

    The first death says little, since others ran then too. From the second one on the task runs beside no other suspect.

    Args:
        crashes: How many of its attempts ended like that in a row, this one included.
        max_crashes: How many of them are forgiven.
        initial_s: The first wait, seconds.
        max_s: The longest wait, seconds.
        seed: As in :func:`backoff_s`.
    """
    if crashes > max_crashes:
        return Verdict(TaskStatus.DEAD)
    return Verdict(TaskStatus.PENDING, backoff_s(crashes, initial_s=initial_s, max_s=max_s, seed=seed))
