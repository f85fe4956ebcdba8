"""The daemon itself: health, status, settings, stop."""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import BaseModel, Field
from sqlalchemy import Connection

from corral import PROTOCOL, __version__
from corral.models.instants import iso
from corral.server.pages import SHOWN_BYTES, page
from corral.server.projects import check_project, project_of
from corral.server.routing import Routes
from corral.server.services import Services
from corral.store import events, merges, sessions, tasks
from corral.store import locks as lock_rows
from corral.store.inspection import health_of, schema_of

router = Routes("daemon")
MOST_AT_WORK = 50
"""Sessions in a status."""


class Stop(BaseModel):
    """How to stop."""

    drain: bool = False


@router.get("/health")
async def health(services: Services) -> dict[str, Any]:
    """Version, protocol, process and project of the daemon that answers."""
    return {
        "version": __version__,
        "protocol": PROTOCOL,
        "pid": os.getpid(),
        "project": str(services.project.root),
        "started_at": iso(services.started_at),
        "stopping": services.stopping,
    }


@router.get("/status")
async def status(services: Services) -> dict[str, Any]:
    """Counts of everything, who is at work, and the latest events."""
    now = iso(services.now())

    def look(conn: Connection) -> dict[str, Any]:
        return {
            "tasks": tasks.counts(conn),
            "merges": merges.counts(conn),
            **_at_work(conn),
            "locks": lock_rows.count(conn, now),
            "recent": events.recent(conn, 10),
        }

    answer = await services.read(look)
    broken = services.settings.error or services.teams.error
    answer["project"] = str(services.project.root)
    answer["target"] = services.settings.target().removeprefix("refs/heads/")
    answer["daemon"] = {"pid": os.getpid(), "version": __version__, "started_at": iso(services.started_at)}
    answer["verified"] = bool(services.settings().landing.verify)
    answer["config_error"] = broken.to_wire()["error"] if broken else None
    answer["config_warnings"] = list(services.settings.loaded.warnings)
    return answer


def _at_work(conn: Connection) -> dict[str, Any]:
    """Who is here, as many as are looked at in a glance: the unguarded first, then who was heard last."""
    rows = [
        {
            "agent_name": row["agent_name"],
            "status": row["status"],
            "current_task": row["current_task"],
            "waiting_for": row["waiting_for"],
            "unguarded": row["unguarded_since_at"] is not None,
        }
        for row in sorted(sessions.live(conn), key=lambda row: row["unguarded_since_at"] is None)
    ]
    shown = page(rows, MOST_AT_WORK, size=SHOWN_BYTES).rows
    return {"sessions": shown, "sessions_left_out": len(rows) - len(shown)}


class Project(BaseModel):
    """The project as clients of Agent Mail know one."""

    id: int
    slug: str
    human_key: str
    created_at: str


@router.get("/project")
async def project(services: Services, human_key: Annotated[str, Field(max_length=4096)] = "") -> Project:
    """The project that this daemon serves, if it is the one that is meant: by the path of any of its worktrees, or its slug."""
    await services.work(lambda: check_project(services, human_key))
    return Project.model_validate(await services.work(lambda: project_of(services)))


@router.get("/config")
async def config(services: Services) -> dict[str, Any]:
    """The settings in force and where each came from."""
    loaded = services.settings.loaded
    return {
        "settings": loaded.settings.model_dump(mode="json"),
        "sources": loaded.sources,
        "warnings": list(loaded.warnings),
    }


@router.post("/daemon/stop", status_code=202)
async def stop(services: Services, how: Stop) -> dict[str, Any]:
    """Begin to stop: workers are ended (or, with ``drain``, waited for), then the process leaves."""
    services.stop_requested(how.drain)
    return {"stopping": True, "pid": os.getpid()}


@router.get("/database")
async def database(services: Services) -> dict[str, Any]:
    """Whether the database is whole, and which schema it has."""

    def look(conn: Connection) -> dict[str, Any]:
        return {"integrity": health_of(conn), "schema": schema_of(conn)}

    return await services.read(look)
