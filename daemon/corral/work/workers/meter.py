"""Measures what the workers of this daemon use together."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from datetime import datetime, timedelta

from corral.config.sections.work import Limits
from corral.core.instants import after
from corral.core.runners import traits
from corral.core.states import RunnerName
from corral.runners.protocol import Observation
from corral.store.protocol import Store
from corral.store.rows.tasks import DayUse
from corral.work.tasks.store import attempts
from corral.work.workers.limits import Full, Reserved, Use, full, reserved

_MINUTE = timedelta(seconds=60)
_DAY_S = 86_400
_SUM_EVERY = timedelta(seconds=1)
"""Between two sums over the attempts of a day."""

_NEW = 0.3
"""The weight of one worker more in what is expected of the next."""

Key = tuple[str, int]


class Meter:
    """For the supervisor's step only. Tokens and cost are those of the database, so that a restart forgets none."""

    def __init__(self, db: Store) -> None:
        self._db = db
        self._memory_mb: dict[Key, float] = {}
        self._turns: dict[Key, int] = {}
        self._requests: deque[tuple[datetime, int]] = deque()
        self._day: tuple[datetime, DayUse] | None = None
        self._expected_mb: dict[str, float] = {}

    def note(self, key: Key, observation: Observation, now: datetime) -> None:
        """Take in what one look at a worker has shown."""
        if observation.memory_mb is not None:
            self._memory_mb[key] = observation.memory_mb
        more = observation.usage.turns - self._turns.get(key, 0)
        if more > 0:
            self._requests.append((now, more))
            self._turns[key] = observation.usage.turns

    def expected_mb(self, runner: str | None) -> float:
        """The memory that a worker of this runner may come to use, MiB; None: the runner is not known yet."""
        name = runner or RunnerName.CLAUDE.value
        return self._expected_mb.get(name) or traits(name).first_mb

    def forget(self, key: Key, runner: str | None, peak_mb: float | None) -> None:
        """An attempt is over: its memory is free. Its use counts for what is expected of others."""
        if runner is not None and peak_mb is not None:
            before = self._expected_mb.get(runner, peak_mb)
            self._expected_mb[runner] = before + _NEW * (peak_mb - before)
        self._memory_mb.pop(key, None)
        if self._turns.pop(key, None):
            self._day = None  # its last use is stored, and counts at once

    def memory_mb(self, key: Key) -> float | None:
        """The resident memory of an attempt's processes at the last look, MiB."""
        return self._memory_mb.get(key)

    def use(self, limits: Limits, now: datetime) -> Use:
        """The present use; tokens and cost are summed only where they are limited."""
        while self._requests and now - self._requests[0][0] >= _MINUTE:
            self._requests.popleft()
        tokens, cost = 0.0, 0.0
        if limits.tokens_per_day is not None or limits.cost_usd_per_day is not None:
            tokens, cost = self._of_day(now)
        return Use(
            memory_mb=sum(self._memory_mb.values()),
            requests_per_minute=sum(number for _, number in self._requests),
            tokens_per_day=tokens,
            cost_usd_per_day=cost,
        )

    def _of_day(self, now: datetime) -> tuple[float, float]:
        if self._day is None or abs(now - self._day[0]) >= _SUM_EVERY:
            self._day = now, self._db.read(lambda conn: attempts.use_since(conn, after(now, -_DAY_S)))
        day_use = self._day[1]
        return float(day_use["tokens"] or 0), float(day_use["cost_usd"] or 0)


class FreeMemory:
    """The memory that is left for further workers, while tasks are claimed.

    Args:
        meter: Knows the memory of workers, and what is expected of them.
        others: The workers that there are, each with its runner.
        waiting: The tasks of leaders that wait for followers: of those no more is expected than what they use.
        chosen: The limits.
        available_mb: Memory that the machine has left, MiB.

    Attributes:
        refused: Why workers did not fit, one reason for each runner.
    """

    def __init__(
        self,
        meter: Meter,
        others: Sequence[tuple[Key, str | None]],
        waiting: Container[str],
        chosen: Limits,
        available_mb: float,
    ) -> None:
        self._meter = meter
        self._chosen = chosen
        self._measured_mb = sum(meter.memory_mb(key) or 0.0 for key, _ in others)
        self._used_mb = 0.0
        for key, runner in others:
            used_mb = meter.memory_mb(key)
            expected_mb = 0.0 if used_mb is not None and key[0] in waiting else meter.expected_mb(runner)
            self._used_mb += max(used_mb or 0.0, expected_mb)
        self._available_mb = available_mb
        self._refused: dict[str | None, Reserved | Full] = {}
        self.reset()

    @property
    def refused(self) -> tuple[Reserved | Full, ...]:
        """Why workers did not fit."""
        return tuple(self._refused.values())

    def reset(self) -> None:
        """Forget what was taken: the claims were undone."""
        self._taken_mb = 0.0

    def take(self, runner: str | None) -> None:
        """A worker of this runner starts."""
        self._taken_mb += self._meter.expected_mb(runner)

    def fits(self, runner: str | None) -> bool:
        """Whether one more worker of this runner has room."""
        expected, used = self._meter.expected_mb(runner), self._used_mb + self._taken_mb
        left = self._available_mb - (used - self._measured_mb)
        reason = reserved(runner, expected, used, self._chosen) or full(runner, expected, left, alone=not used)
        if reason is not None:
            self._refused[runner] = reason
        return reason is None
