"""Raised once per cooldown, reminded of, acknowledged, resolved; bounded for each rule and in all."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from corral.config.sections.alerts import Alerts
from corral.core.instants import iso
from corral.observe.alerts.lifecycle import Decision, Known, decide
from corral.observe.alerts.rules import Finding

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=timezone.utc)
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
