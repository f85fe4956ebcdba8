"""Handoffs over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.responses import Response

from corral.coordination.handoffs import handoffs
from corral.coordination.handoffs import store as handoff_rows
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.pages import page
from corral.core.paging import named
from corral.core.routing import Routes

router = Routes("handoffs", "/handoffs")
Items = Annotated[
    list[str] | str | None,
    Field(None, description="Items, or text with one on each line.", examples=[["Ran the tests"]]),
]


class Handoff(BaseModel):
    """A note that one session leaves for the next; ``session_id`` is its author (default: the person)."""

    summary: str = Field(examples=["The login works; the password reset is half done."])
    completed_work: Items
    in_progress: Items
    decisions: Items
    next_steps: Items
    relevant_files: Items
    session_id: str | None = Field(None, max_length=128)


@router.get("", answer=dict[str, Any])
async def listing(
    services: Services,
    agent_name: Annotated[str | None, Field(max_length=128)] = None,
    limit: Annotated[int, Field(ge=1, le=handoffs.MAX_SHOWN)] = 20,
) -> Response:
    """The newest handoffs, of one agent or of everybody; of long ones as many as fit."""
    found = await services.store.read(lambda conn: page(handoffs.recent(conn, agent_name, limit)))
    return named("handoffs", found)


@router.get("/{handoff_id}")
async def detail(services: Services, handoff_id: str) -> dict[str, Any]:
    """One handoff, by its id or the beginning of it."""
    return handoffs.wire(await services.store.read(lambda conn: handoff_rows.get(conn, handoff_id)))


@router.post("", status_code=201)
async def write(services: Services, said: Handoff) -> dict[str, Any]:
    """Leave a handoff."""
    now, lists = services.now(), said.model_dump(include=set(handoffs.LISTS))
    row = await Actor(services, said.session_id).write(
        lambda conn, me: handoffs.write(conn, me.session_id, said.summary, lists, now)
    )
    services.changes.announce()
    return {"success": True, "handoff_id": row["handoff_id"]}
