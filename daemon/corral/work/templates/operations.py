"""Task templates over HTTP. A task is made from one by submitting it with ``template``."""

from __future__ import annotations

from corral.coordination.services import Services
from corral.core.errors import ConfigInvalid
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, PROJECT, Routes
from corral.work.templates import listing as files
from corral.work.templates.api import ListedTemplate, TaskTemplate

router = Routes("templates", "/templates", scope=PROJECT, callers=EVERYONE)
FOLDER = "templates"


@router.get("")
async def listing(services: Services) -> list[ListedTemplate]:
    """The task templates of this project, by name; `problem` says why one cannot be used."""
    return await services.work(lambda: files.rows(services.project.home / FOLDER))


@router.get("/{name}", answer=TaskTemplate, errors=(ConfigInvalid,))
async def shown(services: Services, name: str) -> Payload:
    """A task template: its parameters, and what its tasks do."""
    return await services.work(lambda: files.shown(services.project.home / FOLDER, name))
