"""Every rule at its threshold: one below it stays silent, one at it fires; windows end; null turns a rule off."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from corral.config.model import Settings
from corral.config.sections.alerts import Alerts
from corral.core.instants import iso
from corral.observe.alerts.rules import RULES, Decision, Ended, Facts, Finding, Known, decide, evaluate

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
PLENTY: dict[str, Any] = {"free_disk_mb": 50_000.0, "free_memory_mb": 8_000.0}


def ended(
    number: int, *, failed: bool = True, task: str = "t-1", agent: str = "x", is_last: bool = False
) -> list[Ended]:
    return [Ended(NOW - timedelta(minutes=1), task, agent, failed, is_last) for _ in range(number)]


def found(settings: dict[str, Any] | None = None, **facts: Any) -> list[tuple[str, str]]:
    """Rule and subject of what fires."""
    return [
        (alert.rule, alert.subject) for alert in evaluate(Alerts(**(settings or {})), Facts(**{**PLENTY, **facts}), NOW)
    ]


def over(mixed: int, failed: int) -> list[Ended]:
    """Tasks that ended, each with an agent and an id of its own."""
    return [Ended(NOW, f"t-{n}", f"a-{n}", n < failed, is_last=True) for n in range(mixed)]


@pytest.mark.req("FR-MONITOR-005")
@pytest.mark.parametrize(
    ("below", "at", "expected"),
    [
        ({"ended": ended(2)}, {"ended": ended(3)}, ("task_failures", "t-1")),
        (
            {"ended": [attempt for n in range(5) for attempt in ended(1, task=f"t-{n}")]},
            {"ended": [attempt for n in range(6) for attempt in ended(1, task=f"t-{n}")]},
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
    (alert,) = evaluate(Alerts(), Facts(ended=ended(3), titles={"t-1": "\x1b[2J\nforged"}, **PLENTY), NOW)
    assert alert.reason == "The task '\\\\x1b[2J\\\\nforged' failed 3 times within 1 hour."


# -- Raised once per cooldown, reminded of, acknowledged, resolved; bounded for each rule and in all

FULL = Finding("free_disk", "disk", "why", "what", 3600.0)


def known(
    minutes_ago: float, *, resolved: bool = False, seen: bool = False, rule: str = "free_disk", subject: str = "disk"
) -> Known:
    at = iso(NOW - timedelta(minutes=minutes_ago))
    return {
        "alert_id": f"{rule} {subject} {minutes_ago:g}", "rule": rule, "subject": subject, "raised_at": at,
        "acknowledged_at": at if seen else None, "resolved_at": iso(NOW) if resolved else None,
    }  # fmt: skip


def decided(findings: list[Finding], rows: list[Known], **settings: Any) -> Decision:
    return decide(findings, rows, Alerts(**settings), NOW)


@pytest.mark.req("FR-MONITOR-005")
def test_an_alert_is_raised_once_and_again_after_its_cooldown_unless_a_person_has_seen_it() -> None:
    assert decided([FULL], []) == Decision(raised=[FULL])
    assert decided([FULL], [known(59)]) == Decision(), "it is open, and there is nothing to say"
    assert decided([FULL], [known(60)]) == Decision(again={"free_disk disk 60": FULL})
    assert decided([FULL], [known(600, seen=True)]) == Decision(), "acknowledged: no reminder, however long it lasts"


@pytest.mark.req("FR-MONITOR-005")
def test_an_alert_resolves_by_itself_and_one_that_flaps_waits_for_its_cooldown() -> None:
    assert decided([], [known(1)]) == Decision(resolved=["free_disk disk 1"])
    assert decided([], [known(1, seen=True)]) == Decision(resolved=["free_disk disk 1"])
    assert decided([], [known(1, resolved=True)]) == Decision()
    assert decided([FULL], [known(59, resolved=True)]) == Decision(held_back=[FULL])
    assert decided([FULL], [known(60, resolved=True)]) == Decision(raised=[FULL]), "a new one, not a reminder"
    assert decided([FULL], [known(90, resolved=True), known(10)]) == Decision(), "the last one counts"


@pytest.mark.req("FR-MONITOR-005")
def test_so_many_of_a_rule_and_of_all_are_raised_in_an_hour_and_the_rest_waits() -> None:
    many = [Finding("task_failures", f"t-{n}", "why", "what", 60.0) for n in range(4)]
    assert decided(many, [], max_per_rule_per_hour=3) == Decision(raised=many[:3], held_back=many[3:])
    assert decided([*many, FULL], [], max_per_rule_per_hour=3) == Decision(raised=[*many[:3], FULL], held_back=many[3:])
    assert decided([*many, FULL], [], max_per_hour=2) == Decision(raised=many[:2], held_back=[*many[2:], FULL])
    earlier = [known(30, resolved=True, rule="task_failures", subject=f"old-{n}") for n in range(3)]
    assert decided(many, earlier, max_per_rule_per_hour=4) == Decision(raised=many[:1], held_back=many[1:])
    over_an_hour = [known(61, resolved=True, rule="task_failures", subject=f"old-{n}") for n in range(3)]
    assert decided(many, over_an_hour, max_per_rule_per_hour=4) == Decision(raised=many)
    reminder = known(61, rule="task_failures", subject="t-0")
    assert decided(many[:1], [*earlier, reminder], max_per_rule_per_hour=3) == Decision(held_back=many[:1])


@pytest.mark.req("FR-MONITOR-005")
def test_alerts_from_before_the_clock_was_set_back_hold_nothing_back() -> None:
    of_the_future = [known(-60 * 24 * 365, resolved=True, rule=rule) for rule in ("free_disk", "free_memory")]
    assert decided([FULL], of_the_future, max_per_rule_per_hour=1, max_per_hour=1) == Decision(raised=[FULL])
