"""What a stored reason says is to be done about it: its last line, under a name of its own."""

from __future__ import annotations

WHAT_TO_DO = "What to do: "
"""How the last line of a reason begins that says what a person does about it."""


def with_remedy(reason: str, remedy: str) -> str:
    """A reason that says what to do; without a remedy as it is."""
    return f"{reason}\n{WHAT_TO_DO}{remedy}" if remedy else reason


def remedy_in(reason: str) -> str:
    """What a reason says is to be done; empty where it says nothing of it."""
    last = reason.rsplit("\n", 1)[-1]
    return last.removeprefix(WHAT_TO_DO) if last.startswith(WHAT_TO_DO) else ""
