"""The planner of the merge queue, played through whole schedules: the very function that the queue calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from bench.queue_simulation import World, by_ladder, schedules, serially

from corral.landing import ladder
from corral.landing.ladder import Candidate, Check, Judgement, Member, Verdict


def _plan(*members: Member, batch: int = 4, slots: int = 2, running: Sequence[str] = ()) -> list[ladder.Action]:
    return ladder.plan(members, "tip", batch=batch, slots=slots, running=running)


@pytest.mark.one_python
@pytest.mark.req("I1")
@pytest.mark.req("I5")
@pytest.mark.req("I9")
@pytest.mark.req("I10")
def test_a_thousand_random_schedules_end_with_no_red_target_and_hardly_an_innocent_sent_back() -> None:
    innocents = requests = 0
    for world in schedules():
        slots, each = world.slots, world.verify_each

        def check(
            members: Sequence[Member], actions: list[ladder.Action], slots: int = slots, each: bool = each
        ) -> None:
            verdicts = {member.merge_id: member.verdict for member in members}
            runs = [action for action in actions if isinstance(action, ladder.Verify)]
            assert actions and (len(runs) in range(1, slots + 1) if runs else len(actions) == 1)
            assert len({run.sha for run in runs}) == len(runs)
            if isinstance(actions[0], ladder.Land):
                behind = {member.merge_id: member.behind for member in members}
                earlier = enumerate(actions[0].merge_ids)
                assert all(behind[merge_id] <= set(actions[0].merge_ids[:place]) for place, merge_id in earlier)
                landing = actions[0].merge_ids if each else actions[0].merge_ids[-1:]
                assert {verdicts[merge_id] for merge_id in landing} == {Verdict.GREEN}

        by_ladder(world, check)
        assert world.red_targets == 0
        assert world.landed | world.returned == set(range(world.requests))
        innocents, requests = innocents + world.innocents, requests + world.requests
    assert innocents * 1000 <= requests


def test_four_slots_are_three_times_as_fast_as_one_after_the_other() -> None:
    times = []
    for way in (serially, by_ladder):
        world = World(1, 0.0, 0.0, 4, requests=10, pairs_share=0.0)
        way(world)
        times.append(world.now)
    assert times[0] >= 3.2 * times[1]


def test_what_is_green_without_a_run_is_built_upon_and_lands_in_one_move() -> None:
    first, second = Member("a", Candidate("a1", "tip"), Verdict.GREEN), Member("b", Candidate("b1", "a1"))
    assert _plan(first, Member("b")) == [ladder.Build("b", "a1")]
    assert _plan(first, replace(second, verdict=Verdict.GREEN)) == [ladder.Land(("a", "b"), True)]
    assert _plan(first, second, Member("c")) == [ladder.Land(("a",), True)], "what has to run is not waited for"


def test_a_chain_is_built_request_upon_request_and_one_that_clashes_with_a_neighbour_waits() -> None:
    first = Member("a", Candidate("a1", "tip"))
    assert _plan(Member("a"), Member("b")) == [ladder.Build("a", "tip")]
    assert _plan(first, Member("b")) == [ladder.Build("b", "a1")]
    assert _plan(first, Member("b", clashes_on="a1")) == [ladder.Verify("a", "a1", is_alone=True)]
    assert _plan(Member("a", Candidate("a1", "tip"), Verdict.GREEN), Member("b", clashes_on="a1")) == [
        ladder.Land(("a",), True)
    ]


def test_who_clashes_with_what_has_landed_is_built_upon_it_and_who_changes_the_rules_ends_the_chain() -> None:
    assert _plan(Member("b", clashes_on="tip")) == [ladder.Build("b", "tip")]
    rules = Member("a", Candidate("a1", "tip"), ends_chain=True)
    assert _plan(rules, Member("b")) == [ladder.Verify("a", "a1", is_alone=True)]


@pytest.mark.req("I5")
def test_a_suspect_is_judged_upon_the_tip_where_that_began_however_often_the_target_moves() -> None:
    timed_out = Member("a", Candidate("a1", "old"), Verdict.RED, is_suspect=True, judgement=Judgement.UNKNOWN)
    later = Member("b", Candidate("b1", "tip"), is_suspect=True)
    assert _plan(timed_out, running=["old"]) == [ladder.Verify("a", "old", is_alone=True)]
    again = Member("a", Candidate("a1", "old"), Verdict.RED, is_suspect=True, judgement=Judgement.UNSURE)
    assert _plan(again) == [ladder.Verify("a", "a1", is_alone=True)]
    assert _plan(timed_out, later, running=["b1"]) == [ladder.Verify("b", "b1", is_alone=True)], "it is not cut short"


def test_one_commit_of_two_requests_is_verified_once() -> None:
    members = [Member("a", Candidate("a1", "tip")), Member("b", Candidate("a1", "a1"))]
    assert len(_plan(*members)) == 1


@pytest.mark.req("I12")
def test_where_each_is_verified_only_what_is_green_throughout_lands() -> None:
    a, b, c = (Candidate(f"{name}1", on) for name, on in (("a", "tip"), ("b", "a1"), ("c", "b1")))
    waiting = [Member("a", a), Member("b", b, Verdict.GREEN), Member("c", c)]
    runs = ladder.plan(waiting, "tip", batch=4, slots=2, verify_each=True)
    assert runs == [ladder.Verify("a", "a1", is_alone=True), ladder.Verify("c", "c1")]
    green = [Member("a", a, Verdict.GREEN), *waiting[1:]]
    assert ladder.plan(green, "tip", batch=4, slots=2, verify_each=True) == [ladder.Land(("a", "b"), True)]
    red = [Member("a", a, Verdict.GREEN), Member("b", b, Verdict.RED), Member("c", c, Verdict.GREEN)]
    assert ladder.plan(red, "tip", batch=4, slots=2, verify_each=True) == [ladder.Land(("a",), False)]


def test_a_check_is_of_the_request_upon_the_tip_and_those_that_passed_theirs_go_on() -> None:
    checked, first = Member("a", Candidate("a1", "tip")), Member("b", check=Check.NOT_RUN)
    assert _plan(checked, first) == [ladder.Build("b", "tip")]
    built = Member("b", Candidate("b1", "tip"), check=Check.NOT_RUN)
    check = ladder.Verify("b", "b1", is_alone=True, is_check=True)
    assert _plan(checked, built) == [ladder.Verify("a", "a1", is_alone=True), check]
    assert _plan(checked, built, slots=1) == [check], "it is short, and may spare the others a run"
    assert _plan(checked, built, slots=1, running=["a1"]) == [ladder.Verify("a", "a1", is_alone=True)]
    later = [Member(name, Candidate(f"{name}1", "tip"), check=Check.NOT_RUN) for name in "cde"]
    assert len(_plan(checked, *later, batch=1, slots=3)) == 3 and _plan(checked, *later, batch=1, slots=1)[0] == (
        ladder.Verify("a", "a1", is_alone=True)
    ), "those that no chain could hold yet are checked in idle slots"


@pytest.mark.req("I5")
def test_a_red_check_sends_nobody_back_before_the_tip_without_it_is_green() -> None:
    red = Member("b", Candidate("b1", "old"), check=Check.RED)
    assert _plan(red) == [ladder.Verify("b", "old", is_alone=True, is_check=True)]
    proven = Member("b", Candidate("b1", "old"), check=Check.AT_FAULT)
    assert _plan(proven) == [ladder.Return("b", by_check=True)]
    moved = Member("b", Candidate("b1", "old"), check=Check.NOT_RUN)
    assert _plan(moved) == [ladder.Build("b", "tip")]
    assert ladder.plan([moved], "tip", batch=4, slots=2, checking=["b1"]) == [
        ladder.Verify("b", "b1", is_alone=True, is_check=True)
    ]


@pytest.mark.req("I10")
def test_who_has_to_land_behind_another_is_not_in_a_chain_without_it() -> None:
    suspect = Member("a", Candidate("a1", "tip"), is_suspect=True)
    behind = Member("b", behind=frozenset({"a"}))
    assert _plan(suspect, behind, Member("c")) == [ladder.Build("c", "tip")]


def test_red_is_narrowed_and_what_is_left_is_judged_alone() -> None:
    def chain(**verdicts: Verdict) -> list[Member]:
        names = "abcd"
        return [
            Member(name, Candidate(f"{name}1", f"{names[place - 1]}1" if place else "tip"), verdicts.get(name))
            for place, name in enumerate(names)
        ]

    assert {run.sha for run in _plan(*chain(d=Verdict.RED)) if isinstance(run, ladder.Verify)} == {"a1", "b1"}
    assert _plan(*chain(b=Verdict.GREEN, c=Verdict.RED)) == [ladder.Land(("a", "b"), False)]
    assert _plan(*chain(a=Verdict.RED)) == [ladder.Suspect("a")]
    alone = Member("a", Candidate("a1", "tip"), Verdict.RED, is_suspect=True, judgement=Judgement.AT_FAULT)
    assert _plan(alone) == [ladder.Return("a")]
    on_an_old_tip = Member("a", Candidate("a1", "old"), Verdict.RED, is_suspect=True, judgement=Judgement.TARGET_RED)
    assert _plan(on_an_old_tip) == [ladder.Build("a", "tip")]


def test_a_run_that_no_longer_matters_is_not_wanted_and_one_that_does_goes_on() -> None:
    members = [
        Member("a", Candidate("a1", "tip")),
        Member("b", Candidate("b1", "a1")),
        Member("c", Candidate("c1", "b1")),
    ]
    runs = _plan(*members, running=["b1"])
    assert ladder.Verify("b", "b1") in runs and ladder.Verify("c", "c1") in runs
    red = [*members[:2], Member("c", Candidate("c1", "b1"), Verdict.RED)]
    assert "c1" not in {run.sha for run in _plan(*red, running=["c1", "a1"]) if isinstance(run, ladder.Verify)}


def test_nothing_lands_on_a_frozen_target_and_what_waits_is_verified_all_the_same() -> None:
    green, later = Member("a", Candidate("a1", "tip"), Verdict.GREEN), Member("b", Candidate("b1", "a1"))
    suspect = Member("s", Candidate("s1", "tip"), Verdict.GREEN, is_suspect=True)

    def frozen(*members: Member) -> list[ladder.Action]:
        return ladder.plan(members, "tip", batch=4, slots=2, is_frozen=True)

    assert frozen(green, Member("b")) == [ladder.Build("b", "a1")]
    assert frozen(green, later, suspect) == [ladder.Verify("b", "b1", is_alone=True)]
    assert frozen(green, suspect) == []
    red = Member("b", Candidate("b1", "a1"), Verdict.RED)
    assert frozen(green, red) == [ladder.Suspect("b")]
    assert frozen(Member("p", Candidate("p1", "tip"), is_bypassed=True)) == [ladder.Verify("p", "p1", is_alone=True)]


def test_who_is_bypassed_lands_upon_the_tip_and_takes_nobody_along() -> None:
    first = Member("a", Candidate("a1", "tip"))
    behind = Member("b", Candidate("b1", "a1"), is_bypassed=True)
    assert _plan(first, behind) == [ladder.Build("b", "tip")], "what it was built upon is not verified"
    alone = Member("b", Candidate("b1", "tip"), is_bypassed=True)
    assert _plan(first, alone) == [ladder.Land(("b",), False)]
    child = Member("b", Candidate("b1", "tip"), behind=frozenset({"a"}), is_bypassed=True)
    assert _plan(first, child) == [ladder.Build("b", "a1")], "not before what it needs"


def test_a_tip_that_nothing_verified_gets_a_slot_that_no_request_needs() -> None:
    one, tip = Member("a", Candidate("a1", "tip")), ladder.Verify("", "tip", is_alone=True)
    assert ladder.plan([], "tip", batch=4, slots=1, judges_tip=True) == [tip]
    assert ladder.plan([one], "tip", batch=4, slots=2, judges_tip=True) == [
        ladder.Verify("a", "a1", is_alone=True),
        tip,
    ]
    assert ladder.plan([one], "tip", batch=4, slots=1, judges_tip=True) == [ladder.Verify("a", "a1", is_alone=True)]
