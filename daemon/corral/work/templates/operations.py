"""Task templates over HTTP. A task is made from one by submitting it with ``template``."""

from __future__ import annotations

from typing import Any

from corral.coordination.services import Services
from corral.core.routing import Routes
from corral.work.templates import listing as files

router = Routes("templates", "/templates")
FOLDER = "templates"


@router.get("")
async def listing(services: Services) -> list[dict[str, Any]]:
    """The task templates of this project, by name; `problem` says why one cannot be used."""
    return await services.work(lambda: files.rows(services.project.home / FOLDER))


@router.get("/{name}")
async def shown(services: Services, name: str) -> dict[str, Any]:
    """A task template: its parameters, and what its tasks do."""
    return await services.work(lambda: files.shown(services.project.home / FOLDER, name))
