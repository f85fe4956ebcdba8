"""Limits of all workers together, as a function of their use."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from corral.config.sections.work import Limits
from corral.work.workers.limits import Use, full, holding, parked, reserved, throttles


@pytest.mark.req("FR-SWARM-008", "FR-CONFIG-006")
@pytest.mark.parametrize(
    ("used", "holds", "passed"), [(79, False, False), (80, True, False), (100, True, False), (101, True, True)]
)
@pytest.mark.parametrize("name", ["memory_mb", "requests_per_minute", "tokens_per_day", "cost_usd_per_day"])
def test_from_four_fifths_on_a_limit_holds_and_above_it_is_passed(
    name: str, used: int, holds: bool, passed: bool
) -> None:
    throttled = throttles(Use(**{name: used}), Limits(**{"memory_mb": None, name: 100}))
    assert [throttle.limit for throttle in throttled] == ([f"limits.{name}"] if holds else [])
    assert [throttle.is_passed for throttle in throttled] == ([passed] if holds else [])
    for throttle in throttled:
        assert f"`limits.{name}` is used to {used} %" in throttle.reason


def test_a_limit_that_is_not_set_holds_nobody() -> None:
    assert throttles(Use(1e9, 1e9, 1e9, 1e9), Limits(memory_mb=None)) == []


@pytest.mark.req("FR-SWARM-004")
@pytest.mark.parametrize(
    ("result", "seconds"),
    [
        ({"retry_at": "2026-03-01T13:00:00.000Z"}, 3600),
        ({"retry_at": "2099-01-01T00:00:00.000Z"}, 7 * 86_400),
        ({"retry_at": "soon"}, 300),
        ({"api_error_status": 429}, 300),
        ({"api_error_status": 529}, None),
        ({}, None),
    ],
)
def test_a_model_that_refuses_for_a_time_is_asked_again_then_and_not_for_ever(
    result: dict[str, object], seconds: float | None
) -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    hold = parked(result, "Too much.", now, 300)
    assert (None if hold is None else (hold.until - now).total_seconds()) == seconds
    if hold is not None:
        assert hold.holds("claude") and not hold.holds("command") and "Too much." in hold.reason


@pytest.mark.req("FR-SWARM-008")
def test_what_models_use_holds_only_tasks_for_models_and_memory_holds_all() -> None:
    tokens = throttles(Use(tokens_per_day=90), Limits(tokens_per_day=100))
    memory = throttles(Use(memory_mb=4000), Limits())
    assert holding(tokens, "command") is None and holding(memory, "command") == memory[0]
    for runner in ("claude", "anthropic", None):
        assert holding(tokens, runner) == tokens[0] and holding(memory, runner) == memory[0]


@pytest.mark.req("FR-SWARM-008", "FR-CONFIG-006")
@pytest.mark.parametrize(
    ("used_mb", "allowed", "waits"), [(600, 1000, False), (601, 1000, True), (0, 100, False), (9000, None, False)]
)
def test_a_worker_waits_for_the_memory_that_it_is_expected_to_use(
    used_mb: float, allowed: int | None, waits: bool
) -> None:
    need = reserved("claude", 400, used_mb, Limits(memory_mb=allowed))
    assert (need is not None) == waits
    if need is not None:
        assert need.holds("claude") and not need.holds("command")
        assert "is expected to use 400 MiB" in need.reason and "use, 601" in need.reason


@pytest.mark.req("FR-SWARM-008")
@pytest.mark.parametrize(("left_mb", "alone", "waits"), [(656, False, False), (655, False, True), (100, True, False)])
def test_a_worker_waits_for_memory_of_the_machine_unless_it_is_the_only_one(
    left_mb: float, alone: bool, waits: bool
) -> None:
    hold = full("claude", 400, left_mb, alone=alone)
    assert (hold is not None) == waits
    if hold is not None:
        assert hold.holds("claude") and not hold.holds("command") and "655 MiB of memory left" in hold.reason
