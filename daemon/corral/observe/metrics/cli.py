"""``corral metrics``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corral.core.errors import InvalidInput
from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request, asks
from corral.faces.cli.terminal.options import span
from corral.faces.cli.terminal.output import echo, moment, paint, printed, state
from corral.faces.cli.terminal.tables import Column, table


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _seconds(spread: Mapping[str, float | None], part: str) -> str:
    value = spread[part]
    return "" if value is None else f"{value:.1f}"


_COLUMNS: list[Column] = [
    ("TASKS", "tasks", 7),
    ("DONE", "completed", 7),
    ("FAILED", "failures", 7),
    ("SUCCESS", lambda row: _share(row["success_rate"]), 7),
    ("AVERAGE S", lambda row: _seconds(row["duration_s"], "mean"), 9),
    ("MEDIAN S", lambda row: _seconds(row["duration_s"], "p50"), 9),
    ("P95 S", lambda row: _seconds(row["duration_s"], "p95"), 9),
    ("TOKENS", "tokens", 12),
    ("USD", lambda row: f"{row['cost_usd']:.2f}", 9),
    ("PEAK MB", lambda row: row["memory_mb"] or "", 7),
]
_SPREADS = {
    "queue_wait_s": "wait for the first claim",
    "landing_s": "from request to landing",
    "verification_s": "verification",
}
_COUNTS = ("verifications_failed", "evictions", "conflicts", "flakes", "retries", "edits_denied", "lock_waits")


@asks(
    "GET /metrics",
    Field("since_s", "--since", "SPAN", also=", such as 90m, 12h, 7d or 4w", read=span, default="1d"),
    Field("until_s", "--until", "SPAN", also=", such as 1d; default: until now", read=span, show_default=False),
    Field("by", "--by", "GROUP"),
)
def metrics(request: Request) -> None:
    """Show what finished work came to: counts, success, durations, tokens, cost, waits; of all, by day and by group.

    `GET /metrics` of the daemon gives the same to Prometheus.
    """
    if request["until_s"] >= request["since_s"]:
        raise InvalidInput(
            "The span ends before it begins: --until is not after --since.",
            remedy="Both say how long ago, such as 7d and 1d.",
        )
    figures = request.send()
    if printed(figures):
        return
    rows = [{**figures, "name": "all"}, *figures["groups"]]
    name: Column = (f"BY {by.upper()}" if (by := request["by"]) else "", lambda row: row["name"] or "(none)", 24)
    table(rows, [name, *_COLUMNS], empty="")
    if figures["days"][1:]:
        echo("")
        table(figures["days"], [("DAY (UTC)", "day", 10), *_COLUMNS], empty="")
    _print_details(figures)


def _print_details(figures: Mapping[str, Any]) -> None:
    echo("")
    for key, label in _SPREADS.items():
        if (spread := figures[key])["max"] is not None:
            words = {"average": "mean", "median": "p50", "p95": "p95", "longest": "max"}
            echo(f"{label}: {', '.join(f'{word} {spread[part]:.1f} s' for word, part in words.items())}")
    if figures["failures_by_code"]:
        failures = ", ".join(f"{number} × {one_line(code)}" for code, number in figures["failures_by_code"].items())
        echo(f"failures: {failures}")
    if figures["runs_per_landing"] is not None:
        echo(f"{figures['landings']} landed, {figures['runs_per_landing']:.2f} verifications for each")
    for change in figures["colours"]:
        echo(f"{one_line(change['target'])} is {state(change['colour'])} since {moment(change['at'])}")
    counts = ", ".join(f"{figures[name]} {name.replace('_', ' ')}" for name in _COUNTS if figures[name])
    if counts:
        echo(counts)
    daemon, hooks = figures["daemon"], figures["hooks"]
    activity = f"; {hooks['count']} hook events, {hooks['mean_ms']:.1f} ms each" if hooks["count"] else ""
    echo(paint(f"daemon: {daemon['memory_mb']:.0f} MB, {daemon['cpu_s']:.0f} s of processor time{activity}", "dim"))
    if figures["left_out"]:
        echo(paint("Older tasks of this span are left out: there are too many.", "yellow"))
