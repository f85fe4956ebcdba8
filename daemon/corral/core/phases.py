"""The phases of an agent's work on a task of the roadmap, each of which leaves a file."""

from __future__ import annotations

from collections.abc import Mapping

PHASES: Mapping[str, str] = {
    "STRATEGIZE": "the goal, the approach, and what was decided against",
    "SPEC": "what must be true when it is done, each point so that it can be checked",
    "PLAN": "the steps, the files, and the order",
    "THINK": "what may go wrong, the cases at the edges, open questions",
    "IMPLEMENT": "what was changed and why",
    "VERIFY": "the commands that were run, and their results",
    "REVIEW": "your own work against the specification: what is missing or weak",
    "MONITOR": "what to watch after it has landed, and how a regression would show",
}
"""Each with what is written of it, in the order of the work."""


def read_phases(value: object) -> list[str]:
    """A list of phases as a person writes it, or a single one, in their order; an empty list is none.

    Raises:
        ValueError: Something else, which is named.
    """
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"must be a list of {', '.join(PHASES)}")
    for word in words:
        if word.upper() not in PHASES:
            raise ValueError(f"unknown phase {word[:40]!r}: use {', '.join(PHASES)}")
    chosen = {word.upper() for word in words}
    return [phase for phase in PHASES if phase in chosen]
