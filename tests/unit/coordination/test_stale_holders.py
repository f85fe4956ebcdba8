"""When a holder may be thought gone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from corral.coordination.stale_holders import Activity, judge
from corral.models.instants import iso

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)


def _ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("silent_min", "activity", "stale", "sign"),
    [
        (31, Activity(), True, ""),
        (31, Activity(_ago(16), _ago(16), _ago(16)), True, ""),
        (29, Activity(), False, "sign of life 29 min ago"),
        (600, Activity(mail_at=_ago(14)), False, "mail activity 14 min ago"),
        (600, Activity(file_at=_ago(1)), False, "file activity 1 min ago"),
        (600, Activity(git_at=_ago(15)), False, "git activity 15 min ago"),
    ],
)
def test_silence_of_every_kind_makes_a_holder_stale(
    silent_min: float, activity: Activity, stale: bool, sign: str
) -> None:
    judged = judge({"status": "active", "last_heartbeat": iso(_ago(silent_min))}, activity, NOW)
    assert judged.stale is stale
    assert sign in "; ".join(judged.signs)
    assert len(judged.reasons) + len(judged.signs) == 4


def test_a_session_that_is_gone_is_inactive_at_once() -> None:
    judged = judge({"status": "disconnected", "last_heartbeat": iso(NOW)}, Activity(), NOW)
    assert judged.stale and "disconnected" in judged.reasons[0]
    assert not judge({"status": "disconnected", "last_heartbeat": iso(NOW)}, Activity(file_at=NOW), NOW).stale
