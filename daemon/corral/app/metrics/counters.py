"""Counters for Prometheus, which takes one that goes down for one that began again, and counts all of it once more."""

from __future__ import annotations

from collections.abc import Mapping

Series = tuple[str, tuple[str, ...]]
"""A counter's name, and the values of its labels."""


class Counters:
    """Counters that never go down while the daemon runs, whatever retention deletes and whatever is tried again.

    Each begins with what the database holds at the first scrape, and grows with it. It is changed by the event loop alone.
    """

    def __init__(self) -> None:
        self._seen: dict[Series, float] = {}
        self._totals: dict[Series, float] = {}

    def grow(self, found: Mapping[Series, float]) -> dict[Series, float]:
        """The counters, with what came since the scrape before; a series that is not in the database any more stays."""
        for series in self._seen.keys() | found.keys():
            number = found.get(series, 0)
            more = max(0, number - self._seen.get(series, 0))
            self._totals[series] = self._totals.get(series, 0) + more
            self._seen[series] = number
        return dict(self._totals)
