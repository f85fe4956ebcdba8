"""``corral agent``: the agents that a task can name."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.visible import one_line
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.options import argument, client, json_of, option
from corral.faces.cli.terminal.output import echo, emit, facts, paint, report
from corral.faces.cli.terminal.tables import Column, table
from corral.work.agents.cli import choices, record, versions

app = Group("Agents: team members and agent definitions that do tasks.")
app.add(versions.app)
app.add(choices.app)
app.add(record.app)


@app.command("list")
def listing(as_json: Annotated[bool, json_of("work.agents.api.Agent[]")] = False) -> None:
    """List the agents that `corral task submit --agent` accepts."""
    rows = client().request("GET", "/agents")
    if as_json:
        emit(rows)
    else:
        show_table(rows, ("FROM", "source", 8))


def show_table(rows: list[dict[str, Any]], more: Column, *, empty: str = "") -> None:
    """Print the agents, and below them the problems of those that cannot start here."""
    columns: list[Column] = [("NAME", "name", 24), more, ("RUNNER", "runner", 16), ("MODEL", "model", 28)]
    table(rows, [*columns, ("CAPABILITIES", _able, 40), ("FOR", "description", 60)], empty=empty)
    for row in rows:
        if row["problem"]:
            echo(paint(one_line(f"{row['name']} cannot start here: {row['problem']}"), "yellow"))


@app.command()
def kill(
    agent: Annotated[
        str, argument("A running agent, as `corral swarm status` shows it, or its task.", "AGENT", of="running agent")
    ],
    as_json: Annotated[bool, json_of("work.swarm.api.Terminating")] = False,
) -> None:
    """Stop an agent's worker; its task is tried again, as after any failure."""
    answer = client().request("POST", f"/swarm/agents/{segment(agent)}/kill")
    report(answer, f"{one_line(agent)} is being stopped; task {answer['task_id'][:8]} is tried again.", as_json=as_json)


@app.command()
def show(
    name: versions.Name,
    version: Annotated[
        str | None, option("--version", "Show the text of a version, as `corral agent versions` lists it.", "V")
    ] = None,
    as_json: Annotated[bool, json_of("work.agents.api.AgentShown")] = False,
) -> None:
    """Show the runner, model, tools, limits and capabilities of an agent; or one version of its definition."""
    if version is not None:
        versions.show_version(name, version, as_json=as_json)
        return
    agent = client().request("GET", f"/agents/{segment(name)}")
    if as_json:
        emit(agent)
        return
    echo(paint(one_line(agent["name"]), "bold"))
    plain = ("description", "runner", "model", "source", "file", "problem")
    shown = {"able": _able(agent), "command": shlex.join(agent.get("command") or ())}
    shown["tools"] = ", ".join(agent.get("tools") or ()) or (
        "all of its runner" if agent.get("tools") is None else "none"
    )
    shown["not"] = ", ".join(agent.get("disallowed_tools") or ())
    shown["limits"] = ", ".join(f"{name} {value:g}" for name, value in (agent.get("limits") or {}).items())
    facts({field: agent.get(field) for field in plain} | shown, 11)


def _able(agent: dict[str, Any]) -> str:
    return ", ".join(agent.get("capabilities") or ())
