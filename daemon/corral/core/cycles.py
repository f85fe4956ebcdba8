"""Cycles among things that wait for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


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
