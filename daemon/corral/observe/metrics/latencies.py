"""How long hook events take in the daemon: a histogram in memory, counted on the hottest path there is."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from corral.observe.metrics.api import HookLatencies

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""The upper bounds of the buckets, seconds; the last bucket, beyond them, has none."""


@dataclass
class Latencies:
    """A histogram since the daemon's start. It is changed by the event loop alone.

    Attributes:
        buckets: How many took no longer than each of :data:`BOUNDS_S`, and longer than the bound before; then the rest.
        total_s: The sum of all, seconds.
    """

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def count(self, seconds: float) -> None:
        """Count one event."""
        self.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    def shown(self) -> HookLatencies:
        """The histogram as the wire has it."""
        number = sum(self.buckets)
        mean = round(1000 * self.total_s / number, 3) if number else None
        return {"count": number, "mean_ms": mean, "p50_ms": self._bound(0.5), "p95_ms": self._bound(0.95)}

    def _bound(self, share: float) -> float | None:
        number, below = sum(self.buckets), 0
        for bound, here in zip(BOUNDS_S, self.buckets, strict=False):
            below += here
            if number and below >= share * number:
                return 1000 * bound
        return None
