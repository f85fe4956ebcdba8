"""In which order a target's requests land, and how long the oldest may wait, in the very functions that the queue calls."""

from __future__ import annotations

import random

import pytest
from bench.queue_simulation import World, by_ladder

from corral.landing import order

STEPS = 5
"""Of priority, from that of a usual request to the highest."""
MOST_RUNS = 10
"""Of which one lands that nothing older is left of, and that waiting has lifted to the highest priority."""


def _busy(seed: int, slots: int, ageing: float) -> World:
    """A target to which more urgent work arrives than it can take, some of it broken, and now and then a usual request."""
    chance = random.Random(seed)
    world = World(seed, 0.15, 0.0, slots, requests=60, pairs_share=0.0, ageing=ageing)
    for number in range(world.requests):
        world.arrives[number] = number / (2 * slots)
        world.priority[number] = 5 if number % 15 == 0 else chance.choice([9, 10])
    return world


@pytest.mark.one_python
@pytest.mark.req("I9")
@pytest.mark.req("I11")
def test_the_oldest_clean_request_lands_within_a_bounded_number_of_runs() -> None:
    def longest(ageing: float) -> float:
        waits = []
        for seed in range(9):
            world, older_ended = _busy(seed, [1, 2, 4][seed % 3], ageing), 0.0
            by_ladder(world)
            assert set(range(world.requests)) - world.broken == world.landed and world.red_targets == 0
            for number, ended in sorted(world.ended_at.items()):
                if number in world.landed:
                    waits.append(ended - max(older_ended, world.arrives[number] + STEPS * ageing))
                older_ended = max(older_ended, ended)
        return max(waits)

    assert longest(1.0) <= MOST_RUNS
    assert longest(0.0) > 2 * MOST_RUNS, "without ageing it waits for as long as more urgent ones come"


def test_waiting_lifts_to_the_highest_priority_and_no_further() -> None:
    assert [order.lifted(5, waited, 10) for waited in (-1, 9, 10, 49, 50, 10**6)] == [5, 5, 6, 9, 10, 10]
    assert order.lifted(5, 10**6, 0) == 5


@pytest.mark.req("I10")
@pytest.mark.parametrize("seed", range(5))
def test_none_is_before_what_it_was_begun_on_and_all_else_is_by_rank(seed: int) -> None:
    chance = random.Random(seed)
    names = [str(number) for number in range(30)]
    behind = {
        name: chance.sample(names[:place], min(place, chance.choice([0, 0, 1, 2]))) for place, name in enumerate(names)
    }
    ranked = chance.sample(names, len(names))
    ordered = order.in_order(ranked, {**behind, "3": [*behind["3"], "gone"]})
    place = {name: number for number, name in enumerate(ordered)}
    assert sorted(ordered) == sorted(names)
    assert all(place[other] < place[name] for name, others in behind.items() for other in others)
    free = [name for name in ranked if not behind[name] and not any(name in others for others in behind.values())]
    assert [name for name in ordered if name in free] == free
    assert len(order.in_order(["a", "b"], {"a": ["b"], "b": ["a"]})) == 2, "a circle ends"


@pytest.mark.req("I10")
@pytest.mark.parametrize("slots", [2, 3, 4])
def test_a_chain_of_five_takes_its_work_and_at_most_1_4_verifications(slots: int) -> None:
    for work in (0.01, 0.1, 0.3, 0.7, 1.0, 2.5):
        world = World(1, 0.0, 0.0, slots, requests=5, pairs_share=0.0)
        world.arrives = {number: work * (number + 1) for number in range(5)}
        world.behind = {number: [number - 1] for number in range(1, 5)}
        by_ladder(world)
        assert world.landed == set(range(5)) and world.now <= 5 * work + 1.4


@pytest.mark.req("I10")
def test_what_was_begun_on_something_broken_does_not_land_before_it_and_others_do() -> None:
    world = World(1, 0.0, 0.0, 2, requests=6, pairs_share=0.0)
    world.broken, world.behind = {0}, {1: [0], 2: [1]}
    by_ladder(world)
    assert world.returned == {0} and world.landed >= {3, 4, 5}
