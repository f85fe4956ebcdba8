"""The team over HTTP."""

from __future__ import annotations

from corral.config.teams import read_team, teams_file
from corral.coordination.services import Services
from corral.core.answers import FieldError
from corral.core.errors import ConfigInvalid
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, PROJECT, Routes
from corral.work.agents.api import Team, TeamValidation
from corral.work.workers.supervisor import Supervisor

router = Routes("teams", "/teams", scope=PROJECT, callers=EVERYONE)


@router.get("", answer=Team)
async def listing(services: Services) -> Payload:
    """The team in force, and what is wrong with a newer file that could not be taken over; ``problem``: why an agent of it
    could do nothing here."""
    error, roster, check = services.teams.error, services.roster(), services.of(Supervisor).check

    def agents() -> list[Payload]:
        return [roster.shown_member(agent, check) for agent in services.teams().agents]

    return {"agents": await services.work(agents), "error": error.to_wire()["error"] if error else None}


@router.get("/validation")
async def validation(services: Services) -> TeamValidation:
    """Check the file as it is now: every error with its field and the reason."""

    def check() -> list[FieldError]:
        try:
            read_team(teams_file(services.project))
        except ConfigInvalid as error:
            problems: list[FieldError] = error.details["errors"]
            return problems
        return []

    errors = await services.work(check)
    return {"valid": not errors, "errors": errors}
