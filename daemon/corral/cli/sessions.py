"""``corral session``."""

from __future__ import annotations

from typing import Annotated

import typer

from corral.cli.help import Grouped
from corral.cli.options import Json, client
from corral.cli.output import emit, table
from corral.models.states import SessionStatus

app = typer.Typer(cls=Grouped, help="Who is at work.", no_args_is_help=True)
_STATES = f"Only these; repeatable. One of: {', '.join(SessionStatus.values())}."


@app.command("list")
def listing(
    status: Annotated[list[SessionStatus] | None, typer.Option("--status", help=_STATES, metavar="STATE")] = None,
    as_json: Json = False,
) -> None:
    """List the sessions, disconnected ones included."""
    rows = client().request("GET", "/sessions", query={"status": status or []})
    if as_json:
        emit(rows)
        return
    for row in rows:
        marks = ["unguarded"] if row["unguarded"] else []
        marks += [f"waits for {row['waiting_for']}"] if row["waiting_for"] else []
        row["notes"] = "; ".join(marks)
        row["seen"] = row["last_heartbeat"][:19].replace("T", " ")
    columns = [
        ("NAME", "agent_name", 24),
        ("STATUS", "status", 12),
        ("TYPE", "agent_type", 12),
        ("TASK", "current_task", 40),
        ("LAST SEEN (UTC)", "seen", 19),
        ("NOTES", "notes", 50),
    ]
    table(rows, columns, empty="No session has been here yet. Start `claude` in this repository.")
