"""``corral team``: the team's members, and the validity of its file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from corral.config import account
from corral.core.errors import ConfigInvalid, NotAProject, NotFound, RunnerUnavailable, from_wire
from corral.core.visible import one_line
from corral.faces.cli.asking import Request
from corral.faces.cli.parsing import Exit, Group
from corral.faces.cli.terminal.options import argument, here, project
from corral.faces.cli.terminal.output import echo, emit, fail, for_programs, paint, printed
from corral.work.agents.cli.commands import show_table

if TYPE_CHECKING:
    from corral.config.paths import Project
    from corral.config.teams import Team, TeamAgent
    from corral.core.states import RunnerName

app = Group("The team: roles, capabilities and runners in .corral/teams.yaml.")


@app.command(prints="work.agents.api.TeamChecked")
def validate(
    file: Annotated[
        Path | None,
        argument("File to check (default: .corral/teams.yaml of this repository).", "FILE", show_default=False),
    ] = None,
) -> None:
    """Check a team file; list every error, and members that cannot start here. Needs no daemon."""
    from corral.config.teams import read_team, teams_file

    path = here() / file if file else teams_file(project())
    try:
        team = read_team(path)
    except ConfigInvalid as error:
        if not for_programs():
            raise
        emit({"valid": False, "errors": error.details["errors"], "warnings": []})
        raise Exit(error.exit_code) from error
    if team is None:
        raise NotFound(
            f"There is no file {path}.",
            cause="Nobody has written it, or it is elsewhere.",
            remedy="Create it with a list `agents`, or name another file.",
        )
    warnings = list(_warnings(team))
    if printed({"valid": True, "errors": [], "warnings": warnings}):
        return
    for warning in warnings:
        echo(paint(one_line(f"warning: {warning['field']}: {warning['reason']}"), "yellow"))
    echo(paint(one_line(f"The team is valid: {', '.join(map(_said, team.agents))}."), "green"))


def _said(agent: TeamAgent) -> str:
    how = " ".join(filter(None, (agent.runner, agent.model)))
    return f"{agent.name} ({how})" if how else agent.name


def _warnings(team: Team) -> Iterator[dict[str, str]]:
    """Why members of the team cannot start here; another machine may have the missing programs."""
    from corral.config.roster import Roster

    try:
        where = project()
    except NotAProject:
        return  # the file is outside a project
    roster = Roster(where, team.agents)
    check = _OnThisPath(where)
    for at, agent in enumerate(team.agents):
        if problem := roster.shown_member(agent, check)["problem"]:
            yield {"field": f"agents[{at}]", "reason": f"{agent.name} cannot start here: {problem}"}


class _OnThisPath:
    """Tells whether a runner's program is on the PATH of this shell."""

    def __init__(self, where: Project) -> None:
        self._where = where

    def __call__(self, runner: RunnerName, program: Sequence[str]) -> None:
        from corral.config.load import load

        name = program[0] if program else None
        if runner == "claude":
            name = load(self._where, environ=os.environ, home=account.home()).settings.runners.claude.command
        if name is not None and shutil.which(name) is None:
            raise RunnerUnavailable(f"The program {name!r} was not found.")


@app.ask("GET /teams", name="list")
def listing(request: Request) -> None:
    """List the team's members, and those that cannot start here."""
    answer = request.send()
    if printed(answer):
        return
    empty = "There is no team: .corral/teams.yaml does not exist."
    show_table(answer["agents"], ("ROLE", "role", 20), empty=empty)
    if answer["error"]:
        fail(from_wire({"error": answer["error"]}))
