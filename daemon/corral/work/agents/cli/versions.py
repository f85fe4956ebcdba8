"""``corral agent versions``, ``diff``, ``rollback``: the texts that an agent's definition has worked with."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.visible import one_line, visible
from corral.faces.cli.parsing import Argument, Group
from corral.faces.cli.terminal.diff_view import show_patch
from corral.faces.cli.terminal.options import argument, client, json_of
from corral.faces.cli.terminal.output import echo, emit, facts, paint, report
from corral.faces.cli.terminal.person import refuse_agents
from corral.faces.cli.terminal.tables import Column, age, table

app = Group()
Name = Annotated[str, argument("An agent's name, as `corral agent list` shows it.", "NAME", of="agent")]
_VERSION = "A version: 1.2.0, or the first six or more characters of its hash."


@app.command()
def versions(name: Name, as_json: Annotated[bool, json_of("work.agents.api.AgentVersion[]")] = False) -> None:
    """List the versions of an agent's definition, the newest first."""
    columns: list[Column] = [
        ("VERSION", lambda row: f"{row['version']}{' *' if row['current'] else ''}", 12),
        ("HASH", lambda row: row["content_hash"][:12], 12),
        ("USED", lambda row: age(row["created_at"]) if row["used"] else "not yet", 8),
        ("BY", "author", 30),
        ("REASON", "reason", 50),
        ("CHANGE", "changelog", 50),
    ]
    rows = client().request("GET", f"/agents/{segment(name)}/versions")
    table(rows, columns, empty=f"{one_line(name)} has no definition, and so no versions.", as_json=as_json)
    if not as_json and any(row["current"] for row in rows):
        echo(paint("* what its file says now", "dim"))


@app.command()
def diff(
    name: Name,
    before: Annotated[str, Argument(help=_VERSION, metavar="V1")],
    after: Annotated[str, Argument(help=_VERSION, metavar="V2")],
    as_json: Annotated[bool, json_of("work.agents.api.VersionDiff")] = False,
) -> None:
    """Show what differs between two versions of an agent's definition."""
    answer = client().request("GET", f"/agents/{segment(name)}/diff", query={"before": before, "after": after})
    if as_json:
        emit(answer)
    elif answer["patch"]:
        show_patch(answer["patch"])
    else:
        echo("No difference.")


@app.command()
def rollback(
    name: Name,
    version: Annotated[str, Argument(help=_VERSION, metavar="V")],
    as_json: Annotated[bool, json_of("work.agents.api.Deployed")] = False,
) -> None:
    """Write a version of an agent's definition back into its file, for you to look at and commit.

    Refused while the file has text that is in no commit and in no version. A running attempt goes on with the version that it
    began with.
    """
    refuse_agents("Deploying a version of an agent", shlex.join(["corral", "agent", "rollback", name, version]))
    answer = client().request("POST", f"/agents/{segment(name)}/rollback", {"version": version})
    file = one_line(answer["file"])
    line = f"{file} is version {answer['version']} again; look at it with git diff, and commit it."
    report(answer, line if answer["changed"] else f"{file} is version {answer['version']} already.", as_json=as_json)


def show_version(name: str, version: str, *, as_json: bool) -> None:
    """Print one version with its text."""
    shown: dict[str, Any] = client().request("GET", f"/agents/{segment(name)}/versions/{segment(version)}")
    if as_json:
        emit(shown)
        return
    echo(paint(one_line(f"{shown['agent']} {shown['version']}"), "bold"))
    plain = ("content_hash", "created_at", "author", "reason", "changelog")
    facts({field: shown[field] for field in plain}, 13)
    echo("")
    echo(visible(shown["content"]))
