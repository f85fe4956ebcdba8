"""Tokens and their price."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PRICES_OF = "2026-10-16"
"""The day of the price table; source: https://platform.claude.com/docs/en/about-claude/pricing."""
LATEST = {
    "haiku": "claude-haiku-5-5",
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "fable": "claude-fable-5-2",
}
"""The aliases of Claude Code's settings and agent definitions; the API takes identifiers only."""

_DATED = re.compile(r"(?:-\d{8})?(?:\[\w+\])?$")
"""The day of a release, and the client's mark of a larger context: neither makes it another model."""
_CACHE_WRITE = 1.25
_LONG_PROMPT = 100_000


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens; ``cache_read`` is a share of the input's price."""

    input: float
    output: float
    cache_read: float = 0.1


_LONG_HAIKU = Price(0.5, 2.5)
_PRICES = {
    "claude-fable-5-1": Price(10, 50, 0.025),
    "claude-fable-5": Price(10, 50),
    "claude-opus-5-5": Price(4, 20, 0.05),
    "claude-opus-5": Price(5, 25),
    "claude-opus-4-8": Price(5, 25),
    "claude-opus-4-7": Price(5, 25),
    "claude-opus-4-6": Price(5, 25),
    "claude-opus-4-5": Price(5, 25),
    "claude-sonnet-5-5": Price(2, 10, 0.05),
    "claude-sonnet-5": Price(2, 10),
    "claude-sonnet-4-6": Price(3, 15),
    "claude-sonnet-4-5": Price(3, 15),
    "claude-haiku-5-5": Price(0.1, 0.5),
    "claude-haiku-4-5": Price(1, 5),
}


def plain_name(model: str) -> str:
    """The model that an alias, a dated name or a client's variant names."""
    return _DATED.sub("", LATEST.get(model, model))


def price_of(model: str, prompt_tokens: int = 0) -> Price | None:
    """The price of a request to a model; None if it is not in the table.

    Args:
        prompt_tokens: All tokens of the prompt; long prompts of some models cost more.
    """
    name = plain_name(model)
    return _LONG_HAIKU if name == "claude-haiku-5-5" and prompt_tokens > _LONG_PROMPT else _PRICES.get(name)


@dataclass
class Spent:
    """The usage of an attempt so far; every number only grows."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0

    @property
    def counted_tokens(self) -> int:
        """The tokens that a task's limit counts: those that were read, without the cache's, and those that were written."""
        return self.input_tokens + self.cache_creation_tokens + self.output_tokens

    def add(self, model: str, usage: Mapping[str, Any]) -> None:
        """Add one answer; an unknown model costs nothing."""
        read, written = _count(usage, "input_tokens"), _count(usage, "output_tokens")
        cached, created = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
        self.input_tokens += read
        self.output_tokens += written
        self.cache_read_tokens += cached
        self.cache_creation_tokens += created
        self.turns += 1
        if price := price_of(model, read + cached + created):
            prompt = read + created * _CACHE_WRITE + cached * price.cache_read
            self.cost_usd += (prompt * price.input + written * price.output) / 1e6

    def by_model(self, model: str) -> dict[str, dict[str, float]]:
        """The usage as a ``result`` event tells it."""
        return {
            model: {
                "inputTokens": self.input_tokens,
                "outputTokens": self.output_tokens,
                "cacheReadInputTokens": self.cache_read_tokens,
                "cacheCreationInputTokens": self.cache_creation_tokens,
                "costUSD": self.cost_usd,
            }
        }


def _count(usage: Mapping[str, Any], name: str) -> int:
    return int(usage.get(name) or 0)
