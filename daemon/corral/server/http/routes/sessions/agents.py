"""Over HTTP: whom a task can be given to by name, and what executes it."""

from __future__ import annotations

from typing import Any

from corral.app.runtime.services import Services
from corral.errors import RunnerUnavailable
from corral.models.states import RunnerName
from corral.server.http.routing import Routes

router = Routes("agents")


@router.get("/agents")
async def listing(services: Services) -> list[dict[str, Any]]:
    """The members of the team and every agent definition; ``problem``: why one could do nothing here."""
    roster, check = services.roster(), services.supervisor.check
    return await services.work(lambda: [roster.shown(name, check) for name in roster.names()])


@router.get("/agents/{name}")
async def show(services: Services, name: str) -> dict[str, Any]:
    """One of them."""
    roster, check = services.roster(), services.supervisor.check
    return await services.work(lambda: roster.shown(name, check))


@router.get("/runners")
async def runners(services: Services) -> list[dict[str, Any]]:
    """The runners that always exist; ``problem``: why one could execute nothing here, and ``remedy``."""

    def look() -> list[dict[str, Any]]:
        return [{"name": str(name), **_problem(services, name)} for name in RunnerName]

    return await services.work(look)


def _problem(services: Services, name: RunnerName) -> dict[str, str | None]:
    try:
        services.supervisor.check(name, ())
    except RunnerUnavailable as error:
        return {"problem": error.message, "remedy": error.remedy}
    return {"problem": None, "remedy": None}
