"""The audit over HTTP: who did what, and whether the chain of its lines is whole."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.services import Services
from corral.core.errors import NotFound
from corral.core.instants import LONGEST_SPAN_S
from corral.core.pages import MOST, Page, answer, page
from corral.core.routing import EVERYONE, MACHINE, Routes
from corral.observe.audit import reading
from corral.observe.audit.api import AuditLine, AuditVerification
from corral.work.tasks import tasks

router = Routes("audit", "/audit", scope=MACHINE, callers=EVERYONE)
_Name = Annotated[str | None, Field(max_length=128)]


@router.get("", answer=list[AuditLine], errors=(NotFound,))
async def listing(
    services: Services,
    request: Request,
    agent: Annotated[_Name, Field(description="Only deeds of this agent: its name or session id.")] = None,
    task: Annotated[_Name, Field(description="Only deeds about this task: its id, or the beginning of it.")] = None,
    action: Annotated[
        _Name, Field(description="Only this action, such as task.cancel, or a group: task, tool, mcp.")
    ] = None,
    since_s: Annotated[float | None, Field(gt=0, le=LONGEST_SPAN_S, description="How far back.")] = None,
    before: Annotated[int | None, Field(ge=0, description="Only lines with a smaller `seq`.")] = None,
    limit: Annotated[int, Field(ge=1, le=MOST)] = 200,
) -> Response:
    """The actions of agents and people with parameters and result, the newest first.

    Each line carries the hash of the one before. A line appears up to a second after the deed.
    """
    since = services.now() - timedelta(seconds=since_s) if since_s else None

    def look(conn: Connection) -> Page:
        of_task = tasks.find(conn, task)["task_id"] if task else None
        rows = reading.listing(conn, agent=agent, task=of_task, action=action, since=since, before=before, limit=limit)
        return page(rows, limit)

    return answer(request, await services.store.read(look), lambda row: {"before": row["seq"]})


@router.get("/verification")
async def verification(services: Services) -> AuditVerification:
    """Whether a line was changed, removed or inserted; ``problems`` names the first ones by ``seq``."""
    return await asyncio.get_running_loop().run_in_executor(services.pool, reading.verify, services.db.read)
