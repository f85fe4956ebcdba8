"""The steps of a task as a tree, for a reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def indented(steps: Sequence[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each step with its depth, in the order in which a tree shows them: one that waits for a single other is below that one.

    Args:
        steps: As a task's details have them, with ``task_id`` and ``wait_for``.
    """
    below: dict[str | None, list[dict[str, Any]]] = {}
    for step in steps:
        below.setdefault(step["wait_for"][0] if len(step["wait_for"]) == 1 else None, []).append(step)
    stack = [(0, step) for step in reversed(below.get(None, []))]
    while stack:
        depth, step = stack.pop()
        yield depth, step
        stack += [(depth + 1, child) for child in reversed(below.get(step["task_id"], []))]
