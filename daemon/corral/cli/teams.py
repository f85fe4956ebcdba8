"""``corral team``: who is in the team, and whether its file is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corral.cli.help import Grouped
from corral.cli.options import Json, client, here, project
from corral.cli.output import emit, fail, paint, say, table
from corral.errors import ConfigInvalid, NotFound, from_wire

app = typer.Typer(cls=Grouped, help="The team: roles and capabilities in .corral/teams.yaml.", no_args_is_help=True)


@app.command()
def validate(
    file: Annotated[
        Path | None,
        typer.Argument(help="By default .corral/teams.yaml of this repository.", metavar="FILE", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a team's file and tell every error in it. Needs no daemon."""
    from corral.config.teams import read_team, teams_file

    path = here() / file if file else teams_file(project())
    try:
        team = read_team(path)
    except ConfigInvalid as error:
        if not as_json:
            raise
        emit({"valid": False, "errors": error.details["errors"]})
        raise typer.Exit(error.exit_code) from error
    if team is None:
        raise NotFound(f"There is no file {path}.", remedy="Write one with a list `agents`, or name another file.")
    if as_json:
        emit({"valid": True, "errors": []})
    else:
        say(paint(f"The team is valid: {', '.join(agent.name for agent in team.agents)}.", "green"))


@app.command("list")
def listing(as_json: Json = False) -> None:
    """List the agents of the team."""
    answer = client().request("GET", "/teams")
    if as_json:
        emit(answer)
        return
    for row in answer["agents"]:
        row["able"] = ", ".join(row["capabilities"])
    columns = [("NAME", "name", 24), ("ROLE", "role", 20), ("CAPABILITIES", "able", 40), ("FOR", "description", 60)]
    table(answer["agents"], columns, empty="There is no team: .corral/teams.yaml does not exist.")
    if answer["error"]:
        fail(from_wire({"error": answer["error"]}))
