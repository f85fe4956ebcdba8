"""Task templates over HTTP. A task is made from one by submitting it with ``template``."""

from __future__ import annotations

from typing import Any

from corral.app import templates
from corral.app.runtime.services import Services
from corral.server.http.routing import Routes

router = Routes("templates", "/templates")


@router.get("")
async def listing(services: Services) -> list[dict[str, Any]]:
    """The task templates of this project, by name; `problem` says why one cannot be used."""
    return await services.work(lambda: templates.listing(services))


@router.get("/{name}")
async def shown(services: Services, name: str) -> dict[str, Any]:
    """A task template: its parameters, and what its tasks do."""
    return await services.work(lambda: templates.shown(services, name))
