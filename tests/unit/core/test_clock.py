from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from corral.core.clock import LONGEST_STEP, AwakeClock

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def test_it_goes_with_the_clock_while_somebody_looks() -> None:
    clock = AwakeClock()
    for second in range(0, 600, 3):
        assert clock.at(START + timedelta(seconds=second)) == START + timedelta(seconds=second)


@pytest.mark.req("D11")
@pytest.mark.parametrize("jump", [timedelta(seconds=400), timedelta(hours=8), timedelta(hours=-8)])
def test_a_jump_counts_for_no_more_than_a_look(jump: timedelta) -> None:
    clock, now = AwakeClock(), START
    before = clock.at(now)
    after = clock.at(now + jump)
    assert timedelta(0) <= after - before <= LONGEST_STEP
    assert clock.at(now + jump + timedelta(seconds=2)) - after == timedelta(seconds=2)
