"""Every rule at its threshold: one below it stays silent, one at it fires; windows end; null turns a rule off."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from corral.config.model import Settings
from corral.config.sections.alerts import Alerts
from corral.observe.alerts.rules import RULES, Ended, Facts, evaluate

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
PLENTY: dict[str, Any] = {"free_disk_mb": 50_000.0, "free_memory_mb": 8_000.0}


def ended(
    number: int, *, failed: bool = True, task: str = "t-1", agent: str = "x", is_last: bool = False
) -> list[Ended]:
    return [Ended(NOW - timedelta(minutes=1), task, agent, failed, is_last) for _ in range(number)]


def found(settings: dict[str, Any] | None = None, **facts: Any) -> list[tuple[str, str]]:
    """Rule and subject of what fires."""
    return [(one.rule, one.subject) for one in evaluate(Alerts(**(settings or {})), Facts(**{**PLENTY, **facts}), NOW)]


def over(mixed: int, failed: int) -> list[Ended]:
    """Tasks that ended, each with an agent and an id of its own."""
    return [Ended(NOW, f"t-{n}", f"a-{n}", n < failed, is_last=True) for n in range(mixed)]


@pytest.mark.req("FR-MONITOR-005")
@pytest.mark.parametrize(
    ("below", "at", "expected"),
    [
        ({"ended": ended(2)}, {"ended": ended(3)}, ("task_failures", "t-1")),
        (
            {"ended": [one for n in range(5) for one in ended(1, task=f"t-{n}")]},
            {"ended": [one for n in range(6) for one in ended(1, task=f"t-{n}")]},
            ("agent_failures", "x"),
        ),
        ({"ended": over(10, 4)}, {"ended": over(10, 5)}, ("error_rate", "all")),
        ({"ended": over(9, 9)}, {"ended": over(10, 9)}, ("error_rate", "all")),
        (
            {"ended": [Ended(NOW, f"t-{n}", f"a-{n}", failed=True, is_last=False) for n in range(20)]},
            {"ended": over(20, 20)},
            ("error_rate", "all"),
        ),
        (
            {"budgets": {"limits.tokens_per_day": (799, 1000)}},
            {"budgets": {"limits.tokens_per_day": (800, 1000)}},
            ("budget", "limits.tokens_per_day 80 %"),
        ),
        ({"free_disk_mb": 1024.0}, {"free_disk_mb": 1023.9}, ("free_disk", "disk")),
        ({"free_disk_mb": None}, {"free_disk_mb": 0.0}, ("free_disk", "disk")),
        ({"free_memory_mb": 256.0}, {"free_memory_mb": 255.0}, ("free_memory", "memory")),
        (
            {"oldest_pending": (NOW - 6 * HOUR + timedelta(seconds=1), "t-1")},
            {"oldest_pending": (NOW - 6 * HOUR, "t-1")},
            ("queue_age", "queue"),
        ),
        ({"red_targets": {}}, {"red_targets": {"main": NOW}}, ("red_target", "main")),
        ({"flaky": {"main": (2, 20)}}, {"flaky": {"main": (3, 20)}}, ("flaky_target", "main")),
        ({"flaky": {"main": (19, 19)}}, {"flaky": {"main": (20, 20)}}, ("flaky_target", "main")),
        (
            {"unguarded": {"s-1": ("GreenLake", NOW - timedelta(seconds=59))}},
            {"unguarded": {"s-1": ("GreenLake", NOW - timedelta(seconds=60))}},
            ("unguarded_session", "s-1"),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_rule_fires_at_its_threshold(below: dict[str, Any], at: dict[str, Any], expected: tuple[str, str]) -> None:
    assert expected not in found(**below)
    assert expected in found(**at)


def test_all_rules_have_settings_and_null_turns_each_of_them_off() -> None:
    everything: dict[str, Any] = {
        "ended": [*ended(6), *over(20, 20)],
        "budgets": {"limits.cost_usd_per_day": (5.0, 5.0)},
        "free_disk_mb": 0.0,
        "free_memory_mb": 0.0,
        "oldest_pending": (NOW - 24 * HOUR, "t-1"),
        "red_targets": {"main": None},
        "flaky": {"main": (20, 20)},
        "unguarded": {"s-1": ("GreenLake", NOW - HOUR)},
    }
    fired = found(**everything)
    assert {rule for rule, _ in fired} == set(RULES)
    assert set(RULES) == set(Settings().alerts.model_dump()) - {"enabled", "max_per_rule_per_hour", "max_per_hour"}
    assert [subject for rule, subject in fired if rule == "budget"] == [
        "limits.cost_usd_per_day 100 %", "limits.cost_usd_per_day 80 %"][::-1]  # fmt: skip
    off = {
        rule: {
            key: None
            for key in values
            if key in ("threshold", "percent", "first_percent", "second_percent", "mb", "after_s")
        }
        for rule, values in Settings().alerts.model_dump().items()
        if isinstance(values, dict)
    }
    assert found(off, **everything) == []


def test_what_is_older_than_the_window_does_not_count() -> None:
    old = [Ended(NOW - HOUR, "t-1", "x", failed=True, is_last=False)]
    assert found(ended=[*old, *ended(2)]) == []
    assert ("task_failures", "t-1") in found({"task_failures": {"window_s": 3601.0}}, ended=[*old, *ended(2)])


def test_titles_of_others_are_shown_and_not_obeyed() -> None:
    (one,) = evaluate(Alerts(), Facts(ended=ended(3), titles={"t-1": "\x1b[2J\nforged"}, **PLENTY), NOW)
    assert one.reason == "The task '\\\\x1b[2J\\\\nforged' failed 3 times within 1 hour."
