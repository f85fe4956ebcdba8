"""``corral agent``: the agents that a task can name."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from corral.cli.help import Grouped
from corral.cli.terminal.options import Json, client
from corral.cli.terminal.output import echo, emit, fact, paint, table
from corral.client.connection import segment
from corral.models.visible import one_line

app = typer.Typer(cls=Grouped, help="Agents: team members and agent definitions that do tasks.", no_args_is_help=True)


@app.command("list")
def listing(as_json: Json = False) -> None:
    """List the agents that `corral task submit --agent` accepts."""
    rows = client().request("GET", "/agents")
    if as_json:
        emit(rows)
        return
    show_table(rows, [("FROM", "source", 8)])


def show_table(rows: list[dict[str, Any]], more: list[tuple[str, str, int]], *, empty: str = "") -> None:
    """Print the agents, and below them the problems of those that cannot start here."""
    for row in rows:
        row["able"] = ", ".join(row.get("capabilities") or ())
    columns = [("NAME", "name", 24), *more, ("RUNNER", "runner", 16), ("MODEL", "model", 28)]
    table(rows, [*columns, ("CAPABILITIES", "able", 40), ("FOR", "description", 60)], empty=empty)
    for row in rows:
        if row["problem"]:
            echo(paint(one_line(f"{row['name']} cannot start here: {row['problem']}"), "yellow"))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="An agent's name, as `corral agent list` shows it.", metavar="NAME")],
    as_json: Json = False,
) -> None:
    """Show the runner, model and tools of an agent."""
    agent = client().request("GET", f"/agents/{segment(name)}")
    if as_json:
        emit(agent)
        return
    echo(paint(one_line(agent["name"]), "bold"))
    told = {
        **{field: agent.get(field) for field in ("description", "runner", "model", "source", "file", "problem")},
        "able": ", ".join(agent.get("capabilities") or ()),
        "command": shlex.join(agent.get("command") or ()),
    }
    for field, value in told.items():
        if value:
            fact(field, value, 11)
