"""When news is told: grouped, so many times an hour, and not in quiet hours."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from corral.config.sections.alerts import Notifications
from corral.observe.alerts.news import due_at, quiet_until

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=timezone.utc)
TOKYO = timezone(timedelta(hours=9))


def at(clock: str, day: int = 24) -> datetime:
    hour, minute = map(int, clock.split(":"))
    return datetime(2026, 11, day, hour, minute, tzinfo=TOKYO)


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        (None, at("03:00"), None),
        ("22:00-07:00", at("21:59"), None),
        ("22:00-07:00", at("22:00"), at("07:00", 25)),
        ("22:00-07:00", at("23:59"), at("07:00", 25)),
        ("22:00-07:00", at("00:00"), at("07:00")),
        ("22:00-07:00", at("06:59"), at("07:00")),
        ("22:00-07:00", at("07:00"), None),
        ("12:00-13:30", at("12:00"), at("13:30")),
        ("12:00-13:30", at("13:30"), None),
        ("12:00-13:30", at("11:59"), None),
        ("08:00-08:00", at("12:00"), at("08:00", 25)),
        ("08:00-08:00", at("07:00"), at("08:00")),
    ],
)
def test_quiet_hours(hours: str | None, now: datetime, until: datetime | None) -> None:
    assert quiet_until(hours, now) == until


def due(seen_s_ago: float, sent_min_ago: list[float], local: datetime = NOW, **settings: object) -> float:
    """Seconds until news may be told."""
    sent = [NOW - timedelta(minutes=minutes) for minutes in sent_min_ago]
    chosen = Notifications.model_validate(settings)
    return (due_at(NOW - timedelta(seconds=seen_s_ago), sent, chosen, NOW, local=local) - NOW).total_seconds()


@pytest.mark.req("FR-MONITOR-005")
def test_news_is_grouped_and_bounded() -> None:
    assert due(0, []) == 5 and due(4, []) == 1 and due(5, []) == 0 and due(9, []) < 0
    assert due(60, [50, 40], max_per_hour=3) < 0
    assert due(60, [50, 40, 30], max_per_hour=3) == 600, "the first of the three must be an hour ago"
    assert due(60, [59, 50, 40, 30], max_per_hour=3) == 600
    assert due(60, [61, 50, 40], max_per_hour=3) < 0


@pytest.mark.req("FR-MONITOR-005")
def test_news_of_quiet_hours_is_told_at_their_end_by_the_clock_of_the_machine() -> None:
    local = NOW.astimezone(TOKYO)
    assert local.hour == 21
    assert due(60, [], local, quiet_hours="21:00-22:00") == 3600
    assert due(60, [], NOW, quiet_hours="21:00-22:00") < 0


@pytest.mark.req("FR-MONITOR-005")
def test_a_clock_that_was_set_back_delays_nothing() -> None:
    settings, future = Notifications(max_per_hour=1, group_s=10), NOW + timedelta(days=365)
    assert due_at(future, [future], settings, NOW, local=NOW) == NOW + timedelta(seconds=10)
