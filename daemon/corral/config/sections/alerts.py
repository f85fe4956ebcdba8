"""Alerts, and notifications of what needs a person."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from corral.config.sections.values import Address, Pause, Seconds, Section

HOUR_S = 3600
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def _hours(text: str) -> str:
    if not _HOURS.fullmatch(text):
        raise ValueError("write it like 22:00-07:00")
    return text


Cooldown = Annotated[
    Seconds, Field(description="Least time between two alerts of this rule about the same thing, and until a reminder.")
]
Window = Annotated[Seconds, Field(description="How far back the rule looks.")]


class TaskFailures(Section):
    """One task fails again and again."""

    threshold: int | None = Field(default=3, ge=1, description="Failed attempts at one task; null: the rule is off.")
    window_s: Window = HOUR_S
    cooldown_s: Cooldown = HOUR_S


class AgentFailures(Section):
    """The tasks of one agent, or of one runner, fail again and again."""

    threshold: int | None = Field(default=6, ge=1, description="Failed attempts of one agent; null: the rule is off.")
    window_s: Window = HOUR_S
    cooldown_s: Cooldown = HOUR_S


class ErrorRate(Section):
    """Too many of the tasks that ended have failed."""

    percent: int | None = Field(
        default=50, ge=1, le=100, description="Share of failed ones among the tasks that ended; null: the rule is off."
    )
    least: int = Field(default=10, ge=1, description="Tasks that must have ended before the share counts.")
    window_s: Window = HOUR_S
    cooldown_s: Cooldown = HOUR_S


class Budget(Section):
    """Parts of `limits.tokens_per_day` and `limits.cost_usd_per_day` are used."""

    first_percent: int | None = Field(
        default=80, ge=1, le=1000, description="Part of a limit of the day that raises an alert; null: none."
    )
    second_percent: int | None = Field(
        default=100, ge=1, le=1000, description="Part of a limit of the day that raises another one; null: none."
    )
    cooldown_s: Cooldown = 6 * HOUR_S


class FreeDisk(Section):
    """The volume of the repository is nearly full."""

    mb: int | None = Field(
        default=1024, ge=1, description="Free disk below which it alerts, MB; null: the rule is off."
    )
    cooldown_s: Cooldown = HOUR_S


class FreeMemory(Section):
    """The machine has hardly any memory left."""

    mb: int | None = Field(default=256, ge=1, description="Free memory below which it alerts; null: the rule is off.")
    cooldown_s: Cooldown = HOUR_S


class QueueAge(Section):
    """A task that could start waits for long."""

    after_s: Seconds | None = Field(default=6 * HOUR_S, description="Age of a `pending` task; null: the rule is off.")
    cooldown_s: Cooldown = 6 * HOUR_S


class RedTarget(Section):
    """A target branch fails its own verification."""

    after_s: Pause | None = Field(default=0, description="How long it has been red; null: the rule is off.")
    cooldown_s: Cooldown = HOUR_S


class FlakyTarget(Section):
    """Too many of a target's green verifications were red before on the same tree."""

    percent: int | None = Field(
        default=10, ge=1, le=100, description="Share of flaky ones among green verifications; null: the rule is off."
    )
    least: int = Field(default=20, ge=1, description="Green verifications that there must be before the share counts.")
    window_s: Seconds = Field(default=7 * 24 * HOUR_S, description="How far back the rule looks.")
    cooldown_s: Cooldown = 24 * HOUR_S


class UnguardedSession(Section):
    """The edits of a session are not checked."""

    after_s: Pause | None = Field(default=60, description="How long it has been so; null: the rule is off.")
    cooldown_s: Cooldown = HOUR_S


class Alerts(Section):
    """Rules that raise alerts."""

    enabled: bool = Field(default=True, description="Whether alerts are raised.")
    max_per_rule_per_hour: int = Field(default=5, ge=1, le=1000, description="Alerts of one rule in an hour.")
    max_per_hour: int = Field(default=20, ge=1, le=1000, description="Alerts of all rules together in an hour.")
    task_failures: TaskFailures = TaskFailures()
    agent_failures: AgentFailures = AgentFailures()
    error_rate: ErrorRate = ErrorRate()
    budget: Budget = Budget()
    free_disk: FreeDisk = FreeDisk()
    free_memory: FreeMemory = FreeMemory()
    queue_age: QueueAge = QueueAge()
    red_target: RedTarget = RedTarget()
    flaky_target: FlakyTarget = FlakyTarget()
    unguarded_session: UnguardedSession = UnguardedSession()


class Notifications(Section):
    """Telling a person of alerts and of what needs them."""

    desktop: bool = Field(default=False, description="Show notifications on the desktop; needs the extra `desktop`.")
    bell: bool = Field(
        default=False,
        description="Ring the bell of terminals that run `corral status --watch` or `corral interactive`.",
    )
    webhook_url: Address | None = Field(
        default=None, description="Address that gets each notification as signed JSON; null: none."
    )
    webhook_timeout_s: Annotated[float, Field(gt=0, le=60)] = Field(
        default=10, description="Time limit for one delivery to it."
    )
    webhook_tries: int = Field(default=8, ge=1, le=20, description="Tries of one delivery.")
    group_s: Pause = Field(default=5, description="Time in which news is collected into one notification.")
    max_per_hour: int = Field(default=20, ge=1, le=1000, description="Notifications in an hour; the rest is grouped.")
    quiet_hours: Annotated[str, AfterValidator(_hours)] | None = Field(
        default=None,
        description="Hours of this machine's clock, like `22:00-07:00`, after which the news is told in one; null: none.",
    )
