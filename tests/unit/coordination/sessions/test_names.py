"""Agent names."""

from __future__ import annotations

import re

import pytest

from corral.coordination.sessions.names import ADJECTIVES, NOUNS, TRIES, agent_name, check_agent_name
from corral.core.errors import InvalidInput


def test_a_name_is_two_plain_words_and_always_the_same() -> None:
    name = agent_name(lambda _: False, "seed")
    assert re.fullmatch(r"[A-Z][a-z]+[A-Z][a-z]+", name)
    assert name == agent_name(lambda _: False, "seed")
    assert len(set(ADJECTIVES)) == len(ADJECTIVES) == len(set(NOUNS)) == len(NOUNS) == 128
    assert not set(ADJECTIVES) & set(NOUNS)


def test_other_seeds_get_other_names() -> None:
    assert len({agent_name(lambda _: False, str(seed)) for seed in range(500)}) > 480


def test_a_taken_name_is_passed_over() -> None:
    taken: set[str] = set()
    for _ in range(TRIES):
        name = agent_name(taken.__contains__, "one seed for all")
        assert name not in taken and not name[-1].isdigit()
        taken.add(name)
    first = agent_name(lambda _: False, "one seed for all")
    assert agent_name(taken.__contains__, "one seed for all") == f"{first}2"
    assert agent_name({*taken, f"{first}2"}.__contains__, "one seed for all") == f"{first}3"


def test_any_seed_will_do() -> None:
    assert agent_name(lambda _: False, "") and agent_name(lambda _: False, "\ud800 \n")


@pytest.mark.parametrize("name", ["Sisyphus", "a", "cc-0", "GreenLake2", "_x.y-z", "x" * 64])
def test_chosen_names(name: str) -> None:
    assert check_agent_name(name) == name


@pytest.mark.parametrize("name", ["", "x" * 65, "two words", "a/b", "-rf", "..", "é", "a\n", "$(x)", "a\x00"])
def test_refused_names(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_agent_name(name)
