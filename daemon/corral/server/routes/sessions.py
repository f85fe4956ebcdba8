"""Sessions over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from corral.coordination import sessions
from corral.coordination.sessions import Arrival
from corral.models.identifiers import new_id
from corral.models.states import SessionStatus
from corral.server.hooks import started_at
from corral.server.routes.dependencies import Given
from corral.server.routes.locks import person
from corral.store import sessions as rows

router = APIRouter(prefix="/sessions", tags=["sessions"])


class Registration(BaseModel):
    """What a session says of itself."""

    session_id: str | None = Field(None, max_length=128)
    agent_name: str | None = Field(None, max_length=64)
    agent_type: str = Field("claude", max_length=64)
    capabilities: list[str] = Field(default_factory=list, max_length=64)
    current_task: str | None = Field(None, max_length=2000)
    client_pid: int | None = Field(None, gt=1)
    cwd: str | None = None


@router.get("")
async def listing(services: Given, status: list[SessionStatus] = Query(default=[])) -> list[dict[str, Any]]:  # noqa: B008
    """Every session of the project, disconnected ones included unless filtered."""
    found = await services.read(lambda conn: rows.listing(conn, [str(one) for one in status]))
    return [sessions.wire(row) for row in found]


@router.post("", status_code=201)
async def register(services: Given, said: Registration) -> dict[str, Any]:
    """Register a session, or update the one with that id."""
    now = services.now()
    newcomer = Arrival(
        session_id=said.session_id or new_id(),
        agent_name=said.agent_name,
        agent_type=said.agent_type,
        capabilities=tuple(said.capabilities),
        current_task=said.current_task,
        client_pid=said.client_pid,
        client_started=started_at(said.client_pid) if said.client_pid else None,
        cwd=said.cwd,
    )
    row = await services.write(lambda conn: sessions.register(conn, newcomer, now))
    services.nudge("sessions")
    return {"success": True, **sessions.wire(row)}


@router.post("/{session_id}/heartbeat")
async def heartbeat(services: Given, session_id: str) -> dict[str, Any]:
    """A sign of life; a session that is unknown, or was given up, is registered again."""
    now = services.now()
    await services.write(lambda conn: sessions.alive(conn, Arrival(session_id=session_id), now))
    return {"success": True, "session_id": session_id}


class End(BaseModel):
    """Who ends a session; none named: the person at the keyboard."""

    caller: str | None = Field(None, max_length=128)


@router.post("/{session_id}/end")
async def end(services: Given, session_id: str, asked: End | None = None) -> dict[str, Any]:
    """End a session: what it holds comes free. Another caller than the session itself is put on record."""
    now = services.now()
    caller = (asked.caller if asked else None) or person()
    by = caller if caller != session_id else None
    row = await services.write(lambda conn: sessions.end(conn, session_id, "ended", now, by=by))
    services.nudge("supervisor")
    return {"success": True, "session_id": session_id, "ended": row is not None}
