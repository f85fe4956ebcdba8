"""Handoffs over HTTP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from corral.coordination.handoffs import handoffs
from corral.coordination.handoffs import store as handoff_rows
from corral.coordination.handoffs.api import Handoff, Handoffs, NewHandoff, Written
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.pages import named, page
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, PROJECT, Routes

router = Routes("handoffs", "/handoffs", scope=PROJECT, callers=EVERYONE)


@router.get("", answer=Handoffs)
async def listing(
    services: Services,
    agent_name: Annotated[str | None, Field(max_length=128, description="Only handoffs of this agent.")] = None,
    limit: Annotated[int, Field(ge=1, le=handoffs.MAX_SHOWN, description="Maximum number of rows.")] = 20,
) -> Response:
    """The newest handoffs, of one agent or of everybody; of long ones as many as fit."""
    recent = await services.store.read(lambda conn: page(handoffs.recent(conn, agent_name, limit)))
    return named("handoffs", recent)


@router.get("/{handoff_id}", answer=Handoff)
async def detail(services: Services, handoff_id: str) -> Payload:
    """One handoff, by its id or the beginning of it."""
    return handoffs.wire(await services.store.read(handoff_rows.get, handoff_id))


@router.post("", status=201)
async def write(services: Services, body: NewHandoff) -> Written:
    """Leave a handoff."""
    now, lists = services.now(), body.model_dump(include=set(handoffs.LISTS))
    row = await Actor(services, body.session_id).write(
        lambda conn, me: handoffs.write(conn, me.session_id, body.summary, lists, now)
    )
    services.changes.announce()
    return {"success": True, "handoff_id": row["handoff_id"]}
