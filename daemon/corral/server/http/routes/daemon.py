"""The daemon itself: health, status, settings, stop."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import BaseModel, Field
from sqlalchemy import Connection
from starlette.requests import Request

from corral import PROTOCOL, __version__
from corral.app.pages import SHOWN_BYTES, page
from corral.app.projects import check_project, project_of
from corral.app.runtime.services import Services
from corral.errors import DatabaseDamaged
from corral.models.instants import iso
from corral.server.http.own_work import refuse_own_work
from corral.server.http.routing import Routes
from corral.server.notify.needs_you import needs_you
from corral.store import events
from corral.store.engine.inspection import health_of, library_of, schema_of
from corral.store.merges import merges
from corral.store.sessions import locks as lock_rows
from corral.store.sessions import sessions
from corral.store.tasks import outcomes, tasks, work_pause
from corral.work.tasks import delays

router = Routes("daemon")
MOST_AT_WORK = 50
"""Sessions in a status."""
MOST_DELAYED = 5
"""Tasks in a status that a fault of the machine holds back."""


class Stop(BaseModel):
    """How to stop."""

    drain: bool = False


@router.get("/health", hot=True)
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
    """Counts of everything, the active sessions, and the latest events."""
    now, pause = services.now(), services.supervisor.pause

    def look(conn: Connection) -> dict[str, Any]:
        return {
            "tasks": tasks.counts(conn),
            "delayed": delays.delayed(conn, pause, now, MOST_DELAYED),
            "merges": merges.counts(conn),
            "open": outcomes.counts(conn),
            "paused": work_pause.current(conn),
            "needs_you": needs_you(services, conn),
            **_at_work(conn),
            "locks": lock_rows.count(conn, iso(now)),
            "recent": events.recent(conn, 10),
        }

    try:
        answer = await services.store.read(look)
    except DatabaseDamaged:
        answer = _without_rows(services)
    broken = services.settings.error or services.teams.error
    answer["project"] = str(services.project.root)
    answer["target"] = services.settings.target().removeprefix("refs/heads/")
    answer["daemon"] = {"pid": os.getpid(), "version": __version__, "started_at": iso(services.started_at)}
    answer["verified"] = bool(services.settings().landing.verify)
    answer["config_error"] = broken.to_wire()["error"] if broken else None
    answer["config_warnings"] = list(services.settings.loaded.warnings)
    return answer


def _without_rows(services: Services) -> dict[str, Any]:
    """The status without a database: the faults, first of all why there is none."""
    nothing: dict[str, Any] = {
        "tasks": {},
        "delayed": [],
        "merges": {},
        "open": {},
        "paused": None,
        "locks": 0,
        "recent": [],
        "sessions": [],
        "sessions_left_out": 0,
    }
    return {**nothing, "needs_you": [asdict(need) for need in services.faults.values()]}


def _at_work(conn: Connection) -> dict[str, Any]:
    """The first sessions for a status: unguarded ones first, then those with the latest heartbeat."""
    rows = [
        {
            "agent_name": row["agent_name"],
            "status": sessions.shown_status(row),
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


class PauseOfWork(BaseModel):
    """Why nothing is to be claimed or landed."""

    reason: str | None = Field(None, max_length=500)


@router.post("/pause")
async def pause(services: Services, wanted: PauseOfWork | None = None) -> dict[str, Any]:
    """Claim and land nothing until told to go on; what runs goes on. Restarts keep it."""
    now, reason = services.now(), wanted.reason if wanted else None
    row = await services.store.write(lambda conn: work_pause.begin(conn, reason, now))
    services.changes.announce()
    return {"paused": True, **row}


@router.post("/resume")
async def resume(services: Services) -> dict[str, Any]:
    """Claim and land again."""
    now = services.now()
    was_paused = await services.store.write(lambda conn: work_pause.end(conn, now))
    services.nudge("supervisor")
    services.nudge("landing")
    return {"paused": False, "was_paused": was_paused}


@router.post("/daemon/stop", hot=True, status_code=202)
async def stop(services: Services, request: Request, how: Stop) -> dict[str, Any]:
    """Begin to stop: workers are ended (or, with ``drain``, waited for), then the process leaves.

    A request from a task or verification of this daemon is refused.
    """
    await services.work(lambda: refuse_own_work(services.project, request))
    services.stop_requested(how.drain)
    return {"stopping": True, "pid": os.getpid()}


@router.get("/database")
async def database(services: Services) -> dict[str, Any]:
    """Whether the database is whole, which schema it has, and which version of which library reads it."""

    def look(conn: Connection) -> dict[str, Any]:
        return {"integrity": health_of(conn), "schema": schema_of(conn), "library": library_of(conn)}

    answer = await services.store.read(look)
    if answer["integrity"] != "ok":
        raise services.db.found_damaged(answer["integrity"])
    return answer
