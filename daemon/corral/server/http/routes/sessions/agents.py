"""Over HTTP: whom a task can be given to by name."""

from __future__ import annotations

from typing import Any

from corral.app.runtime.services import Services
from corral.server.http.routing import Routes

router = Routes("agents", "/agents")


@router.get("")
async def listing(services: Services) -> list[dict[str, Any]]:
    """The members of the team and every agent definition; ``problem``: why one could do nothing here."""
    roster, check = services.roster(), services.supervisor.check
    return await services.work(lambda: [roster.shown(name, check) for name in roster.names()])


@router.get("/{name}")
async def show(services: Services, name: str) -> dict[str, Any]:
    """One of them."""
    roster, check = services.roster(), services.supervisor.check
    return await services.work(lambda: roster.shown(name, check))
