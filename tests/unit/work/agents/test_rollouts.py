"""When a rollout calls a version worse: Fisher's test, made a few times only, and stricter each time."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from corral.config.sections.work import Rollout
from corral.core.states import AttemptOutcome, MergeState
from corral.store.rows.agents import ArmTask
from corral.work.agents.rollouts import Arm, Finding, by_chance, compare, is_good, sentence

RULES = Rollout(min_tasks=10, confidence=0.95)


def task(version: str, *, good: bool | None, merge: MergeState | None = None) -> ArmTask:
    outcome = None if good is None else AttemptOutcome.COMPLETED if good else AttemptOutcome.FAILED
    return {"task_id": "t", "content_hash": version, "outcome": outcome, "merge_state": merge}


def tasks(*, old: str, new: str) -> list[ArmTask]:
    """Tasks in turns; ``+`` is a good one, ``-`` a bad one."""
    sides = [[task(version, good=sign == "+") for sign in signs] for version, signs in (("old", old), ("new", new))]
    return [attempt for pair in zip_longest(*sides) for attempt in pair if attempt is not None]


@pytest.mark.req("FR-META-005")
def test_the_chance_is_that_of_fishers_exact_test() -> None:
    assert by_chance(Arm(1, 10), Arm(11, 14)) == pytest.approx(0.0013797, rel=1e-4)  # the example in every textbook
    assert by_chance(Arm(0, 3), Arm(3, 3)) == pytest.approx(1 / 20)
    assert by_chance(Arm(3, 3), Arm(0, 3)) == by_chance(Arm(3, 3), Arm(3, 3)) == 1.0
    assert by_chance(Arm(2, 4), Arm(2, 4)) == pytest.approx(53 / 70)


@pytest.mark.req("FR-META-005")
def test_it_is_tested_at_ten_twenty_and_forty_tasks_and_asks_for_more_each_time() -> None:
    few = compare(tasks(old="+" * 30, new="-" * 9), "new", RULES)
    assert (few.finding, few.chance, few.next_at) == (Finding.TOO_FEW, None, 10)
    first = compare(tasks(old="+" * 10, new="-" * 10), "new", RULES)
    assert first.needed == pytest.approx(0.025) and (first.finding, first.next_at) == (Finding.WORSE, 20)
    between = compare(tasks(old="+" * 10 + "-" * 9, new="-" * 10 + "+" * 9), "new", RULES)
    assert (between.finding, between.chance) == (Finding.WORSE, first.chance), (
        "what came after the test changes nothing"
    )
    # Three of ten against eight of ten is 3.5 % by chance: 5 % would be enough for it, and each test has but a part of them.
    close = compare(tasks(old="+" * 8 + "--", new="+++" + "-" * 7), "new", RULES)
    assert close.chance == pytest.approx(0.0349, abs=1e-3) and close.finding is Finding.NO_DIFFERENCE
    second = compare(tasks(old="+" * 16 + "-" * 4, new="+" * 9 + "-" * 11), "new", RULES)
    assert second.needed == pytest.approx(0.05 / 6) and second.next_at == 40
    assert 0.0083 < (second.chance or 0) < 0.025 and second.finding is Finding.NO_DIFFERENCE
    better = compare(tasks(old="-" * 10, new="+" * 10), "new", RULES)
    assert better.finding is Finding.BETTER and "1.1.0 is better" in sentence(better, "1.1.0")


@pytest.mark.req("FR-META-005")
@pytest.mark.parametrize(
    ("good", "merge", "expected"),
    [
        (True, None, True),
        (True, MergeState.LANDED, True),
        (True, MergeState.FAILED, False),
        (True, MergeState.CONFLICT, False),
        (True, MergeState.QUEUED, None),
        (False, None, False),
        (None, None, None),
    ],
)
def test_a_task_is_good_if_it_completed_and_did_not_come_back(
    good: bool | None, merge: MergeState | None, expected: bool | None
) -> None:
    assert is_good(task("old", good=good, merge=merge)) is expected
