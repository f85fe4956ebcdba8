from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.states import TaskStatus
from corral.work.tasks.retry import backoff_s, judge


@pytest.mark.req("FR-QUEUE-009")
def test_the_pause_starts_at_ten_seconds_doubles_and_ends_at_five_minutes() -> None:
    pauses = [backoff_s(attempt, initial_s=10, max_s=300) for attempt in range(1, 9)]
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]


@given(attempts=st.integers(1, 10**6), initial_s=st.floats(0, 10**6), max_s=st.floats(0, 10**6))
def test_the_pause_is_bounded_and_never_shrinks(attempts: int, initial_s: float, max_s: float) -> None:
    pause = backoff_s(attempts, initial_s=initial_s, max_s=max_s)
    assert 0 <= pause <= max_s
    assert pause <= backoff_s(attempts + 1, initial_s=initial_s, max_s=max_s)


@pytest.mark.req("FR-QUEUE-009")
@pytest.mark.parametrize(("attempts", "least", "most"), [(1, 10, 11), (3, 40, 44), (9, 270, 300)])
def test_tasks_that_failed_together_are_tried_again_one_after_the_other(
    attempts: int, least: float, most: float
) -> None:
    pauses = [backoff_s(attempts, initial_s=10, max_s=300, seed=f"task-{number}") for number in range(100)]
    assert least <= min(pauses) and max(pauses) <= most, "initial: 10 s, longest: 5 min"
    assert len(set(pauses)) > 90 and max(pauses) - min(pauses) > 0.8 * (most - least)
    assert pauses[0] == backoff_s(attempts, initial_s=10, max_s=300, seed="task-0"), "the same, whoever asks"


@pytest.mark.req("FR-QUEUE-009", "FR-QUEUE-010")
def test_three_retries_then_dead() -> None:
    verdicts = [judge(attempt, 3, retryable=True, initial_s=10, max_s=300) for attempt in range(1, 5)]
    assert [verdict.status for verdict in verdicts] == [TaskStatus.PENDING] * 3 + [TaskStatus.DEAD]
    assert [verdict.delay_s for verdict in verdicts] == [10, 20, 40, 0]


@pytest.mark.req("FR-QUEUE-009")
def test_what_no_retry_can_mend_fails_at_once() -> None:
    assert judge(1, 3, retryable=False, initial_s=10, max_s=300).status == TaskStatus.FAILED


def test_no_retries_means_dead_at_the_first_failure() -> None:
    assert judge(1, 0, retryable=True, initial_s=10, max_s=300).status == TaskStatus.DEAD
