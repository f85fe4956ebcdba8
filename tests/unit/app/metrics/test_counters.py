"""Counters keep what retention deletes, and begin with what there is."""

from __future__ import annotations

from corral.app.metrics.counters import Counters


def test_a_counter_never_goes_down_and_counts_what_comes_after_a_deletion() -> None:
    counters = Counters()
    one, other = ("evictions", ()), ("tokens", ("coder",))
    assert counters.grow({one: 100, other: 5}) == {one: 100, other: 5}
    assert counters.grow({one: 40}) == {one: 100, other: 5}, "retention deleted some, and all of another"
    assert counters.grow({one: 42, other: 1}) == {one: 102, other: 6}
