"""In which order the requests of a target land: priority, then age, and what one was begun on before it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

HIGHEST = 10
"""The highest priority: no waiting lifts above it."""


def lifted(priority: int, waited_s: float, ageing_s: float) -> int:
    """The priority of a request that has waited for so long: a step more for each ``ageing_s``; 0: waiting lifts nobody.

    Within one priority the oldest is first, so after ``ageing_s`` times the steps to the highest only older ones are before it.
    """
    return priority if ageing_s <= 0 else min(HIGHEST, priority + int(max(waited_s, 0) // ageing_s))


def in_order(ranked: Sequence[str], behind: Mapping[str, Collection[str]]) -> list[str]:
    """Requests by rank, but each after those that it is behind, which are moved up to it.

    Args:
        ranked: Their ids, the first one first.
        behind: By the id of a request those that have to land before it. What is not among the requests counts for nothing.
    """
    rank = {merge_id: place for place, merge_id in enumerate(ranked)}
    ordered: dict[str, None] = {}
    for merge_id in ranked:
        trail = [] if merge_id in ordered else [merge_id]
        while trail:
            earlier = [other for other in behind.get(trail[-1], ()) if other in rank and other not in ordered]
            if earlier := [
                other for other in earlier if other not in trail
            ]:  # a circle, which no dependency is, ends here
                trail.append(min(earlier, key=rank.__getitem__))
            else:
                ordered[trail.pop()] = None
    return list(ordered)
