"""The remedy in a stored reason: its last line, with a fixed prefix."""

from __future__ import annotations

WHAT_TO_DO = "What to do: "
"""Prefix of the line of a reason that contains the remedy."""


def with_remedy(reason: str, remedy: str) -> str:
    """Append a remedy to a reason; without a remedy the reason is unchanged."""
    return f"{reason}\n{WHAT_TO_DO}{remedy}" if remedy else reason


def remedy_in(reason: str) -> str:
    """The remedy in a reason; empty if it has none."""
    last = reason.rsplit("\n", 1)[-1]
    return last.removeprefix(WHAT_TO_DO) if last.startswith(WHAT_TO_DO) else ""
