"""``corral swarm``."""

from __future__ import annotations

import typer

from corral.cli.help import Grouped
from corral.cli.terminal.options import Json, client
from corral.cli.terminal.output import Column, echo, emit, moment, paint, table
from corral.models.visible import one_line

app = typer.Typer(cls=Grouped, help="Swarm: the running agents, and the limits of all together.", no_args_is_help=True)


@app.command()
def status(as_json: Json = False) -> None:
    """Show the running agents, what they use together, and what keeps more from starting."""
    answer = client().request("GET", "/swarm")
    if as_json:
        emit(answer)
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
    for throttle in answer["throttled"]:
        echo(paint(one_line(throttle["reason"]), "yellow"))
