"""The figures as Prometheus reads them, by :mod:`prometheus_client`.

Counters are totals that the database keeps (:mod:`corral.store.totals`); the gauges with a ``quantile`` are of the newest work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from corral.core.payload import Payload
from corral.observe.metrics.api import ProcessUse, RecentWork
from corral.observe.metrics.latencies import BOUNDS_S, Latencies
from corral.store.rows.metrics import TotalRow

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tasks_finished": ("Finished tasks", ("agent", "outcome")),
    "tokens": ("Tokens of ended attempts", ("agent",)),
    "cost_usd": ("Cost of ended attempts, USD", ("agent",)),
    "task_failures": ("Failed tasks by error code", ("error_code",)),
    "landings": ("Merge requests that landed", ()),
    "evictions": ("Merge requests whose verification failed", ()),
    "conflicts": ("Merge requests that came back with a conflict", ()),
    "flakes": ("Verifications that failed and then passed unchanged", ()),
    "retries": ("Failed attempts that were tried again", ()),
    "edits_denied": ("Edits of files that another session had locked", ()),
    "lock_waits": ("Waits for a lock of another session", ()),
}
_SPREADS: dict[Literal["queue_wait_s", "duration_s", "landing_s", "verification_s"], tuple[str, str]] = {
    "queue_wait_s": ("queue_wait_seconds", "From a task's submission to its first claim"),
    "duration_s": ("task_duration_seconds", "A completed task's last worker"),
    "landing_s": ("landing_seconds", "From a merge request to its landing"),
    "verification_s": ("verification_seconds", "A verification with a verdict"),
}


_PRESENT = {
    "needs_you": ("kind", "Conditions that need a person"),
    "merges": ("state", "Merge requests by state"),
    "sessions": ("status", "Connected sessions by status"),
    "target_red": ("target", "1: the target fails without any change; 0: it is not known to"),
    "verification_slots_busy": ("target", "Verifications that run now"),
}


def text(
    counted: Sequence[TotalRow], figures: RecentWork, present: Payload, process: ProcessUse, hooks: Latencies
) -> bytes:
    """The answer to a scrape, as :data:`CONTENT_TYPE`.

    Args:
        counted: As :func:`corral.store.totals.every` returns them.
        present: As :func:`corral.observe.metrics.operations.present` returns it.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(counted, figures, present, process, hooks))
    answer: bytes = generate_latest(registry)
    return answer


class _Collector:
    def __init__(
        self,
        counted: Sequence[TotalRow],
        figures: RecentWork,
        present: Payload,
        process: ProcessUse,
        hooks: Latencies,
    ) -> None:
        self._given = counted, figures, present, process, hooks

    def collect(self) -> Iterator[Metric]:
        """The families, as the registry asks for them."""
        counted, figures, present, process, hooks = self._given
        yield from _now(present)
        yield from _tasks(figures)
        yield from _counted(counted)
        yield from _spreads(figures)
        yield from _of_daemon(process, hooks)


def _now(present: Payload) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield CounterMetricFamily(
        "corral_verification_runs", "Verifications that began", value=present["verification_runs"]
    )
    for name, (label, about) in _PRESENT.items():
        family = GaugeMetricFamily(f"corral_{name}", about, labels=[label])
        for value, number in present[name].items():
            family.add_metric([value], number)
        yield family


def _tasks(figures: RecentWork) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    waiting = GaugeMetricFamily("corral_tasks", "Tasks by state", labels=["state"])
    for state, number in figures["states"].items():
        waiting.add_metric([state], number)
    yield waiting


def _counted(counted: Sequence[TotalRow]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    for name, (about, labels) in _COUNTERS.items():
        family = CounterMetricFamily(f"corral_{name}", about, labels=labels)
        rows = [row for row in counted if row["name"] == name]
        for row in rows:
            family.add_metric([row["label"], row["outcome"]][: len(labels)], row["number"])
        if not rows and not labels:
            family.add_metric([], 0)
        yield family


def _spreads(figures: RecentWork) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    for key, (name, about) in _SPREADS.items():
        family = GaugeMetricFamily(f"corral_{name}", about, labels=["quantile"])
        for label, value in (("0.5", figures[key]["p50"]), ("0.95", figures[key]["p95"])):
            if value is not None:
                family.add_metric([label], value)
        yield family


def _of_daemon(process: ProcessUse, hooks: Latencies) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    yield GaugeMetricFamily("corral_daemon_memory_bytes", "Resident memory of the daemon", value=_bytes(process))
    yield CounterMetricFamily("corral_daemon_cpu_seconds", "Processor time of the daemon", value=process["cpu_s"])
    below, buckets = 0, []
    for bound, number in zip((*map(str, BOUNDS_S), "+Inf"), hooks.buckets, strict=True):
        below += number
        buckets.append((bound, below))
    about = "Hook events, from the request to the answer"
    yield HistogramMetricFamily("corral_hook_seconds", about, buckets=buckets, sum_value=hooks.total_s)


def _bytes(process: ProcessUse) -> int:
    return process["memory_mb"] * (1 << 20)
