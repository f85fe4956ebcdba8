"""The steps of a task as a tree, for a reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


# -- Cycles among things that wait for each other


def blocking_cycle(edges: Mapping[str, Sequence[str]]) -> list[str] | None:
    """A cycle among things that wait for each other, as ``[a, b, a]``; None if there is none.

    Args:
        edges: For each thing those it waits for; what is not a key waits for nothing.
    """
    done: set[str] = set()
    for root in edges:
        trail: dict[str, None] = {}
        stack: list[tuple[str, bool]] = [(root, True)]
        while stack:
            node, entering = stack.pop()
            if not entering:
                done.add(trail.popitem()[0])
            elif node in trail:
                names = list(trail)
                return [*names[names.index(node) :], node]
            elif node not in done:
                trail[node] = None
                stack.append((node, False))
                stack.extend((parent, True) for parent in reversed(edges.get(node, ())))
    return None
