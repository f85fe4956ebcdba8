"""Two versions' works are compared blind, in both orders, and a judge whose answer hangs on the order prefers neither."""

from __future__ import annotations

import pytest

from corral.work.agents import judging
from corral.work.agents.judging import NEW_FIRST, OLD_FIRST, Judged


@pytest.mark.req("FR-META-005")
@pytest.mark.parametrize(
    ("old_first", "new_first", "expected"),
    [
        ("first", "second", (1, 0, 0, 0)),
        ("second", "first", (0, 1, 0, 0)),
        ("first", "first", (0, 0, 1, 0)),
        ("second", "second", (0, 0, 1, 0)),
        ("neither", "neither", (0, 0, 1, 0)),
        ("second", "neither", (0, 0, 1, 0)),
        ("second", None, (0, 0, 0, 1)),
    ],
)
def test_a_work_is_preferred_only_if_it_is_in_both_orders(
    old_first: str, new_first: str | None, expected: tuple[int, ...]
) -> None:
    counts = judging.count([{OLD_FIRST: old_first, NEW_FIRST: new_first}])
    assert (counts.old, counts.new, counts.ties, counts.unjudged) == expected


@pytest.mark.req("FR-META-005")
def test_a_judge_sees_both_works_in_either_order_and_no_version() -> None:
    one, other = (judging.question("Do it.", "Tidy.", "WORK-O", "WORK-N", order) for order in judging.ORDERS)
    assert one.index("WORK-O") < one.index("WORK-N") and other.index("WORK-N") < other.index("WORK-O")
    mark = one.partition("the mark\n")[2].partition(".")[0]
    assert one.count(mark) == 5 and mark not in other, "the works cannot know the mark that ends them"
    assert not [word for word in ("old", "new", "version") if f" {word} " in one.lower()]


def test_the_sign_test_says_how_likely_the_preferences_are_by_chance() -> None:
    assert Judged().chance == 1.0 and Judged(ties=9).chance == 1.0
    assert Judged(new=6).chance == pytest.approx(2 / 64)
    assert Judged(old=1, new=5).chance == pytest.approx(2 * 7 / 64)
    assert Judged(old=2, new=2).chance == 1.0


def test_no_model_judges_its_own_work() -> None:
    opus, sonnet, haiku = judging.MODELS
    assert judging.model_for(None, [None]) == opus
    assert judging.model_for("sonnet", ["opus", None]) == sonnet
    assert judging.model_for("opus", [opus, "sonnet"]) == haiku
    assert judging.model_for(None, [opus, sonnet, haiku]) is None


def test_only_one_of_three_words_is_an_answer() -> None:
    assert judging.read_answer('Sure:\n```json\n{"reasons": "r", "better": "second"}\n```') == "second"
    for bad in ("", "second", '{"better": "new"}', '{"better": ["first"]}', "[1]", '{"better"'):
        assert judging.read_answer(bad) is None


def test_only_the_tasks_of_the_daemon_itself_are_told_so_and_a_judge_has_no_tool() -> None:
    assert judging.own_definition(judging.key_of("i", "judge:0:0:a"))["tools"] == []  # type: ignore[index]
    assert judging.own_definition(judging.key_of("i", "propose:1"))["tools"] == ["Read", "Glob", "Grep"]  # type: ignore[index]
    for other in (None, "", "improve:", "improve:i", judging.key_of("i", "0:old:1"), "roadmap:i:judge:0"):
        assert judging.own_definition(other) is None
