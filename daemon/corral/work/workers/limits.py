"""Limits of all workers together: a pure function of their use and the settings, which names the reason for every wait.

From 80 % of a limit on, no further worker starts that would use it; where the limit itself is passed, workers are stopped. Their
tasks are not charged for it, and run again when the use is below again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from corral.config.sections.work import Limits
from corral.core.instants import iso, parse
from corral.core.runners import traits
from corral.core.states import RunnerName
from corral.work.swarm.api import WhyHeld

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
class Reserved:
    """The memory that one more worker of a runner is expected to use is not left.

    Attributes:
        runner: The runner.
        expected_mb: As much as its workers used so far, MiB.
        used_mb: Memory that the workers use or are expected to, MiB.
        allowed: The setting, MiB.
    """

    runner: str | None
    expected_mb: float
    used_mb: float
    allowed: float
    limit: str = MEMORY

    @property
    def shown(self) -> WhyHeld:
        """It for a surface."""
        return {"limit": self.limit, "used": round(self.used_mb), "allowed": self.allowed, "reason": self.reason}

    @property
    def reason(self) -> str:
        """One line for a person."""
        return (
            f"`{self.limit}` leaves no room: its worker is expected to use {self.expected_mb:.0f} MiB, and of "
            f"{self.allowed:g} MiB the others use, or are expected to use, {self.used_mb:.0f}."
        )

    def holds(self, runner: str | None) -> bool:
        """Whether it keeps a task of this runner from starting."""
        return runner == self.runner


@dataclass(frozen=True)
class Full:
    """The machine has not the memory that one more worker of a runner is expected to use, whatever uses it.

    Attributes:
        runner: The runner.
        expected_mb: As much as its workers used so far, MiB.
        left_mb: Memory that the machine has left once those that run use what is expected of them, MiB.
    """

    runner: str | None
    expected_mb: float
    left_mb: float
    limit: str = "memory of the machine"

    @property
    def shown(self) -> WhyHeld:
        """It for a surface."""
        return {"limit": self.limit, "left": round(self.left_mb), "reason": self.reason}

    @property
    def reason(self) -> str:
        """One line for a person."""
        return (
            f"The machine has {max(0.0, self.left_mb):.0f} MiB of memory left; its worker is expected to use "
            f"{self.expected_mb:.0f}, and {SPARE_MB} are kept free."
        )

    def holds(self, runner: str | None) -> bool:
        """Whether it keeps a task of this runner from starting."""
        return runner == self.runner


Hold = Throttle | Parked | Reserved | Full
"""A reason for which tasks do not start."""


def reserved(runner: str | None, expected_mb: float, used_mb: float, limits: Limits) -> Reserved | None:
    """Why one more worker does not start though the limit of memory is not used up; None: there is room, or nobody else runs.

    Args:
        expected_mb: Its memory as expected, MiB.
        used_mb: Memory of the others, each at least as expected, MiB; 0: there are none.
    """
    allowed = limits.memory_mb
    if allowed is None or not used_mb or used_mb + expected_mb <= allowed:
        return None
    return Reserved(runner, expected_mb, used_mb, float(allowed))


def full(runner: str | None, expected_mb: float, left_mb: float, *, alone: bool) -> Full | None:
    """Why one more worker does not start on this machine; None: there is room, or it would be the only one.

    Args:
        expected_mb: Its memory as expected, MiB.
        left_mb: Memory that the machine has left for it, MiB.
        alone: Whether no other worker runs.
    """
    if alone or left_mb - expected_mb >= SPARE_MB:
        return None
    return Full(runner, expected_mb, left_mb)


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
