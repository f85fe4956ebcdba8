"""Limits of all workers together: a pure function of their use and the settings, which names the reason for every wait.

From 80 % of a limit on, no further worker starts that would use it; where the limit itself is passed, workers are stopped. Their
tasks are not charged for it, and run again when the use is below again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from corral.config.sections.work import Limits
from corral.core.instants import after, iso, parse
from corral.core.runners import traits
from corral.core.states import RunnerName
from corral.runners.protocol import Observation
from corral.store.protocol import Store
from corral.store.rows.tasks import DayUse
from corral.work.swarm.api import WhyHeld
from corral.work.tasks.store import attempts

BEGIN = 0.8
"""The share of a limit from which on no further worker starts."""


MEMORY = "limits.memory_mb"
SPARE_MB = 256
"""Memory of the machine that no worker is started into, MiB."""
TOO_MANY_REQUESTS = 429
LONGEST_PARK = timedelta(days=7)
"""However far away a model says that its limit ends."""


@dataclass(frozen=True)
class Use:
    """The use of all workers together, each field named like its limit.

    Attributes:
        memory_mb: Resident memory of all their processes now, MiB.
        requests_per_minute: Answers of models in the last minute.
        tokens_per_day: Tokens of the last 24 hours, input and output.
        cost_usd_per_day: Cost of the last 24 hours, USD.
    """

    memory_mb: float = 0.0
    requests_per_minute: float = 0.0
    tokens_per_day: float = 0.0
    cost_usd_per_day: float = 0.0


@dataclass(frozen=True)
class Throttle:
    """A limit that is used to 80 % or more.

    Attributes:
        limit: The name of its setting.
        used: In the unit of the setting.
        allowed: The setting.
    """

    limit: str
    used: float
    allowed: float

    @property
    def shown(self) -> WhyHeld:
        """It for a surface."""
        return {"limit": self.limit, "used": self.used, "allowed": self.allowed, "reason": self.reason}

    @property
    def is_passed(self) -> bool:
        """Whether more than the whole limit is used."""
        return self.used > self.allowed

    @property
    def reason(self) -> str:
        """One line for a person."""
        return (
            f"`{self.limit}` is used to {100 * self.used / self.allowed:.0f} % ({self.used:g} of {self.allowed:g}); from "
            f"{100 * BEGIN:.0f} % on no further worker starts."
        )

    def holds(self, runner: str | None) -> bool:
        """Whether it keeps a task of this runner from starting; None: the runner is not known yet."""
        return self.limit == MEMORY or runner is None or traits(runner).is_model


@dataclass(frozen=True)
class Parked:
    """A model refused its workers until a time; none is started before.

    Attributes:
        until: When it may be asked again.
        cause: Its answer, for a person.
    """

    until: datetime
    cause: str
    limit: str = "model usage limit"

    @property
    def shown(self) -> WhyHeld:
        """It for a surface."""
        return {"limit": self.limit, "until": iso(self.until), "reason": self.reason}

    @property
    def reason(self) -> str:
        """One line for a person."""
        return f"The model's usage limit is reached: {self.cause} Its tasks start again at {iso(self.until)}."

    def holds(self, runner: str | None) -> bool:
        """Whether it keeps a task of this runner from starting; None: the runner is not known yet."""
        return runner is None or traits(runner).is_model


@dataclass(frozen=True)
class NoRoom:
    """The memory that one more worker of a runner is expected to use is not left, by the setting or on the machine.

    Attributes:
        runner: The runner.
        shown: It for a surface; its ``reason`` is one line for a person.
    """

    runner: str | None
    shown: WhyHeld

    @property
    def limit(self) -> str:
        """The name of its setting, or of what is at its end."""
        return self.shown["limit"]

    @property
    def reason(self) -> str:
        """One line for a person."""
        return self.shown["reason"]

    def holds(self, runner: str | None) -> bool:
        """Whether it keeps a task of this runner from starting."""
        return runner == self.runner


Hold = Throttle | Parked | NoRoom
"""A reason for which tasks do not start."""


def reserved(runner: str | None, expected_mb: float, used_mb: float, limits: Limits) -> NoRoom | None:
    """Why one more worker does not start though the limit of memory is not used up; None: there is room, or nobody else runs.

    Args:
        expected_mb: Its memory, as much as its runner's workers used so far, MiB.
        used_mb: Memory of the others, each at least as expected, MiB; 0: there are none.
    """
    allowed = limits.memory_mb
    if allowed is None or not used_mb or used_mb + expected_mb <= allowed:
        return None
    reason = (
        f"`{MEMORY}` leaves no room: its worker is expected to use {expected_mb:.0f} MiB, and of "
        f"{float(allowed):g} MiB the others use, or are expected to use, {used_mb:.0f}."
    )
    return NoRoom(runner, {"limit": MEMORY, "used": round(used_mb), "allowed": float(allowed), "reason": reason})


def full(runner: str | None, expected_mb: float, left_mb: float, *, alone: bool) -> NoRoom | None:
    """Why one more worker does not start on this machine; None: there is room, or it would be the only one.

    Args:
        expected_mb: Its memory, as much as its runner's workers used so far, MiB.
        left_mb: Memory that the machine has left for it once those that run use what is expected of them, MiB.
        alone: Whether no other worker runs.
    """
    if alone or left_mb - expected_mb >= SPARE_MB:
        return None
    reason = (
        f"The machine has {max(0.0, left_mb):.0f} MiB of memory left; its worker is expected to use "
        f"{expected_mb:.0f}, and {SPARE_MB} are kept free."
    )
    return NoRoom(runner, {"limit": "memory of the machine", "left": round(left_mb), "reason": reason})


def parked(result: Mapping[str, Any], message: str | None, now: datetime, wait_s: float) -> Parked | None:
    """The model's usage limit, as a worker's end tells it; None where it was not that.

    Args:
        result: Of the worker: ``retry_at`` (ISO 8601), or ``api_error_status`` 429 without a time.
        message: The worker's error.
        wait_s: How long to wait where no time is known, seconds.
    """
    retry_at = result.get("retry_at")
    if retry_at is None and result.get("api_error_status") != TOO_MANY_REQUESTS:
        return None
    try:
        until = parse(str(retry_at)) if retry_at else now + timedelta(seconds=wait_s)
    except ValueError:
        until = now + timedelta(seconds=wait_s)
    return Parked(min(until, now + LONGEST_PARK), message or "It gave no reason.")


def throttles(use: Use, limits: Limits) -> list[Throttle]:
    """The limits that are used to 80 % or more, in the order of the settings."""
    used_limits = []
    for name in Use.__annotations__:
        allowed = getattr(limits, name)
        used = round(float(getattr(use, name)), 4)
        if allowed is not None and used >= BEGIN * allowed:
            used_limits.append(Throttle(f"limits.{name}", used, float(allowed)))
    return used_limits


def holding_judges(holds: Sequence[Hold]) -> Hold | None:
    """The first limit that keeps a loop from starting for its judges, which ask a model whatever its runner is."""
    return next((hold for hold in holds if isinstance(hold, Throttle) and hold.holds(RunnerName.ANTHROPIC)), None)


def holding(holds: Sequence[Hold], runner: str | None) -> Hold | None:
    """The first limit that keeps a task of this runner from starting."""
    return next((hold for hold in holds if hold.holds(runner)), None)


# -- Measures what the workers of this daemon use together

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
            self._day = now, self._db.read(attempts.use_since, after(now, -_DAY_S))
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
        self._refused: dict[str | None, NoRoom] = {}
        self.reset()

    @property
    def refused(self) -> tuple[NoRoom, ...]:
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
