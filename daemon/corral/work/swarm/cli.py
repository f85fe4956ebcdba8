"""``corral swarm``."""

from __future__ import annotations

from corral.core.visible import one_line
from corral.faces.cli.asking import Request
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.output import echo, moment, paint, printed
from corral.faces.cli.terminal.tables import Column, table

app = Group("Swarm: the running agents, and the limits of all together.")


_METRICS: list[Column] = [
    ("LAST 24 H", "kind", 24),
    ("DONE", "completed", 6),
    ("FAILED", "failed", 6),
    ("OTHER", "other", 6),
    ("SUCCESS", lambda row: "" if row["success_rate"] is None else f"{100 * row['success_rate']:.0f} %", 7),
    ("MEDIAN S", lambda row: _seconds(row["median_s"]), 9),
    ("P95 S", lambda row: _seconds(row["p95_s"]), 9),
    ("TOKENS", "tokens", 12),
    ("USD", lambda row: f"{row['cost_usd']:.2f}", 9),
    ("PEAK MB", "memory_mb", 7),
]


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


@app.ask("GET /swarm")
def status(request: Request) -> None:
    """Show the running agents, what they use together, what keeps more from starting, and how the last 24 hours went."""
    answer = request.send()
    if printed(answer):
        return
    columns: list[Column] = [
        ("AGENT", "agent_id", 24),
        ("KIND", "kind", 16),
        ("STATE", "state", 11),
        ("TASK", lambda row: row["task_id"][:8], 8),
        ("PARENT", lambda row: (row["parent"] or "")[:8], 8),
        ("MB", "memory_mb", 6),
        ("TOKENS", "tokens", 9),
        ("USD", lambda row: f"{row['cost_usd']:.2f}", 7),
        ("HEARTBEAT (UTC)", lambda row: moment(row["heartbeat_at"] or ""), 19),
        ("PROGRESS", "progress", 50),
    ]
    table(answer["agents"], columns, empty="No agent is running.")
    for name, limit in answer["limits"].items():
        if limit["allowed"] is not None:
            echo(paint(f"  {name}: {limit['used']:g} of {limit['allowed']:g}", "dim"))
    if answer["metrics"]["kinds"]:
        echo("")
        table(answer["metrics"]["kinds"], _METRICS, empty="")
    for throttle in answer["throttled"]:
        echo(paint(one_line(throttle["reason"]), "yellow"))
