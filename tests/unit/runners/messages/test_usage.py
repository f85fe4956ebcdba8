"""What an answer costs, and which tokens count."""

from __future__ import annotations

import pytest

from corral.runners.messages.usage import LATEST, Spent, price_of

USAGE = {
    "input_tokens": 1_000_000,
    "output_tokens": 100_000,
    "cache_read_input_tokens": 2_000_000,
    "cache_creation_input_tokens": 400_000,
}


def test_each_kind_of_token_has_its_price() -> None:
    spent = Spent()
    spent.add("claude-sonnet-4-5-20250929", USAGE)
    assert spent.cost_usd == pytest.approx(3.0 + 1.5 + 2 * 0.3 + 0.4 * 3.75)
    assert (spent.turns, spent.counted_tokens) == (1, 1_500_000)
    spent.add("claude-sonnet-4-5", {"input_tokens": 1, "output_tokens": None})
    assert (spent.turns, spent.counted_tokens) == (2, 1_500_001)


def test_a_long_prompt_of_the_smallest_model_costs_more() -> None:
    short, long = price_of("claude-haiku-5-5", 100_000), price_of("claude-haiku-5-5", 100_001)
    assert short and long and (short.input, long.input) == (0.1, 0.5)


def test_an_unknown_model_costs_nothing() -> None:
    spent = Spent()
    spent.add("claude-unheard-of", USAGE)
    assert (spent.cost_usd, spent.turns) == (0.0, 1)
    assert price_of("claude-unheard-of") is None


def test_the_aliases_of_claude_code_are_models() -> None:
    assert {"sonnet", "opus", "haiku"} <= set(LATEST)
    assert all(price_of(LATEST[name]) for name in ("sonnet", "opus", "haiku"))
