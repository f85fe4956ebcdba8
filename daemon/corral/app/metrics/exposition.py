"""The figures as Prometheus reads them, by :mod:`prometheus_client`.

Counters and summaries are those of what the database still holds: they begin with the oldest finished task that retention keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from corral.app.metrics.latencies import BOUNDS_S, Latencies
from corral.models.payload import Payload

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTERS = {
    "evictions": "Merge requests whose verification failed",
    "conflicts": "Merge requests that came back with a conflict",
    "flakes": "Verifications that failed and then passed unchanged",
    "retries": "Failed attempts that were tried again",
    "edits_denied": "Edits of files that another session had locked",
    "lock_waits": "Waits for a lock of another session",
}
_SPREADS = {
    "queue_wait_s": ("queue_wait_seconds", "From a task's submission to its first claim"),
    "duration_s": ("task_duration_seconds", "A completed task's last worker"),
    "landing_s": ("landing_seconds", "From a merge request to its landing"),
    "verification_s": ("verification_seconds", "A verification with a verdict"),
}


def text(figures: Payload, process: Payload, hooks: Latencies) -> bytes:
    """The answer to a scrape, as :data:`CONTENT_TYPE`.

    Args:
        figures: As :func:`corral.app.metrics.figures.collect` returns them, by agent.
        process: ``memory_mb`` and ``cpu_s`` of the daemon.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(figures, process, hooks))
    answer: bytes = generate_latest(registry)
    return answer


class _Collector:
    def __init__(self, figures: Payload, process: Payload, hooks: Latencies) -> None:
        self._given = figures, process, hooks

    def collect(self) -> Iterator[Metric]:
        """The families, as the registry asks for them."""
        figures, process, hooks = self._given
        yield from _tasks(figures)
        yield from _spreads(figures)
        yield from _of_daemon(process, hooks)


def _tasks(figures: Payload) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    waiting = GaugeMetricFamily("corral_tasks", "Tasks by state", labels=["state"])
    for state, number in figures["states"].items():
        waiting.add_metric([state], number)
    yield waiting
    ended = CounterMetricFamily("corral_tasks_finished", "Finished tasks", labels=["agent", "outcome"])
    tokens = CounterMetricFamily("corral_tokens", "Tokens of finished tasks", labels=["agent"])
    cost = CounterMetricFamily("corral_cost_usd", "Cost of finished tasks, USD", labels=["agent"])
    for group in figures["groups"]:
        for outcome, key in (("completed", "completed"), ("failed", "failures"), ("cancelled", "cancelled")):
            ended.add_metric([group["name"], outcome], group[key])
        tokens.add_metric([group["name"]], group["tokens"])
        cost.add_metric([group["name"]], group["cost_usd"])
    failures = CounterMetricFamily("corral_task_failures", "Failed tasks by error code", labels=["error_code"])
    for code, number in figures["failures_by_code"].items():
        failures.add_metric([code], number)
    yield from (ended, tokens, cost, failures)
    for name, about in _COUNTERS.items():
        yield CounterMetricFamily(f"corral_{name}", about, value=figures[name])


def _spreads(figures: Payload) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    for key, (name, about) in _SPREADS.items():
        family = GaugeMetricFamily(f"corral_{name}", about, labels=["quantile"])
        for label, part in (("0.5", "p50"), ("0.95", "p95")):
            if figures[key][part] is not None:
                family.add_metric([label], figures[key][part])
        yield family


def _of_daemon(process: Payload, hooks: Latencies) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    yield GaugeMetricFamily("corral_daemon_memory_bytes", "Resident memory of the daemon", value=_bytes(process))
    yield CounterMetricFamily("corral_daemon_cpu_seconds", "Processor time of the daemon", value=process["cpu_s"])
    below, buckets = 0, []
    for bound, number in zip((*map(str, BOUNDS_S), "+Inf"), hooks.buckets, strict=True):
        below += number
        buckets.append((bound, below))
    about = "Hook events, from the request to the answer"
    yield HistogramMetricFamily("corral_hook_seconds", about, buckets=buckets, sum_value=hooks.total_s)


def _bytes(process: Payload) -> Any:
    return process["memory_mb"] * (1 << 20)
