"""The daemon itself: health, status, settings, stop."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection

from corral import PROTOCOL, __version__
from corral.coordination.projects import ProjectNotFound, check_project, project_of
from corral.coordination.services import Services
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, MACHINE, NO_WORK, Routes
from corral.faces.http.api import Database, Health, PauseOfWork, Project, SettingsInForce, Stop, Stopping
from corral.observe.view.api import View
from corral.observe.view.composing import view
from corral.store.engine.inspection import health_of, library_of, schema_of
from corral.work.tasks.store import work_pause
from corral.work.workers.api import Paused, Resumed

router = Routes("daemon", scope=MACHINE, callers=EVERYONE)


@router.get("/health")
async def health(services: Services) -> Health:
    """Version, protocol, process and project of the daemon that answers."""
    return {
        "version": __version__,
        "protocol": PROTOCOL,
        "pid": os.getpid(),
        "project": str(services.project.root),
        "profile": services.settings.loaded.profile,
        "started_at": iso(services.started_at),
        "stopping": services.stopping,
    }


@router.get("/status")
async def status(services: Services) -> View:
    """The view: what needs a person, what runs, the queue, counts, sessions and the latest events."""
    return await view(services)


@router.get("/project", answer=Project, errors=(ProjectNotFound,))
async def project(services: Services, human_key: Annotated[str, Field(max_length=4096)] = "") -> Payload:
    """The project that this daemon serves, if it is the one that is meant: by the path of any of its worktrees, or its slug."""
    await services.work(lambda: check_project(services, human_key))
    return await services.work(lambda: project_of(services))


@router.get("/config")
async def config(services: Services) -> SettingsInForce:
    """The settings in force and where each came from."""
    loaded = services.settings.loaded
    return {
        "settings": loaded.settings.model_dump(mode="json"),
        "sources": loaded.sources,
        "profile": loaded.profile,
        "profiles": loaded.of_profiles,
        "warnings": list(loaded.warnings),
    }


@router.post("/pause")
async def pause(services: Services, options: PauseOfWork | None = None) -> Paused:
    """Claim and land nothing until told to go on; what runs goes on. Restarts keep it."""
    now, reason = services.now(), options.reason if options else None
    row = await services.store.write(work_pause.begin, reason, now)
    services.changes.announce()
    return {"paused": True, **row}


@router.post("/resume")
async def resume(services: Services) -> Resumed:
    """Claim and land again."""
    now = services.now()
    was_paused = await services.store.write(work_pause.end, now)
    services.nudge("supervisor")
    services.nudge("landing")
    return {"paused": False, "was_paused": was_paused}


@router.post("/daemon/stop", status=202, callers=NO_WORK)
async def stop(services: Services, how: Stop) -> Stopping:
    """Stop the daemon: workers are ended, or waited for (``drain``), or left to the next daemon (``leave_workers``).

    A request from a task or verification of this daemon is refused.
    """
    services.stop_requested(how.drain, how.leave_workers)
    return {"stopping": True, "pid": os.getpid()}


@router.get("/database", answer=Database)
async def database(services: Services) -> Payload:
    """Whether the database is whole, which schema it has, and which version of which library reads it."""

    def look(conn: Connection) -> Payload:
        return {"integrity": health_of(conn), "schema": schema_of(conn), "library": library_of(conn)}

    answer = await services.store.read(look)
    if answer["integrity"] != "ok":
        raise services.db.record_damage(answer["integrity"])
    return answer
