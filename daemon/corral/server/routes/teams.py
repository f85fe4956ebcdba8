"""The team over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from corral.config.teams import read_team, teams_file
from corral.errors import ConfigInvalid
from corral.server.routes.dependencies import Given

router = APIRouter(prefix="/teams", tags=["teams"])


@router.get("")
async def listing(services: Given) -> dict[str, Any]:
    """The team in force, and what is wrong with a newer file that could not be taken over."""
    error = services.teams.error
    return {
        "agents": [agent.model_dump() for agent in services.teams().agents],
        "error": error.to_wire()["error"] if error else None,
    }


@router.get("/validation")
async def validation(services: Given) -> dict[str, Any]:
    """Check the file as it is now: every error with its field and the reason."""

    def check() -> list[dict[str, str]]:
        try:
            read_team(teams_file(services.project))
        except ConfigInvalid as error:
            found: list[dict[str, str]] = error.details["errors"]
            return found
        return []

    errors = await services.work(check)
    return {"valid": not errors, "errors": errors}
