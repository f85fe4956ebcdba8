"""Hook events over HTTP, and the connection that a bridge holds while it lives."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import Connection

from corral.models.instants import iso
from corral.models.states import SessionStatus
from corral.server import hooks
from corral.server.routes.dependencies import Given
from corral.server.services import Services
from corral.store import sessions as session_rows

router = APIRouter(tags=["hooks"])


@router.post("/hooks/{event}")
async def hook(services: Given, event: str, payload: dict[str, Any] = Body(...)) -> dict[str, Any]:  # noqa: B008
    """One event of a Claude Code session; the answer is what the hook prints."""
    return await hooks.answer(services, event, payload)


@router.get("/bridge")
async def bridge(services: Given, request: Request, pid: str, client: int, session: str = "") -> StreamingResponse:
    """Held open by a session's MCP bridge while it lives; its end tells at once that the session is unguarded, or gone."""

    async def hold() -> Any:
        services.witness.bridge_opened(pid, session)
        try:
            yield b"\n"
            while not await request.is_disconnected() and not services.stopping:
                await services.next_change(30.0)
        finally:
            served = services.witness.bridge_closed(pid)
            if served and not services.stopping:
                await _bridge_lost(services, served, client)

    return StreamingResponse(hold(), media_type="application/octet-stream")


async def _bridge_lost(services: Services, session_id: str, client: int) -> None:
    now = services.now()
    if hooks.is_running(client, None):
        await services.write(lambda conn: _unguarded(conn, session_id, now))
        services.changed()
    else:
        services.nudge("sessions")


def _unguarded(conn: Connection, session_id: str, now: datetime) -> None:
    row = session_rows.get(conn, session_id)
    if row is not None and row["status"] != SessionStatus.DISCONNECTED and row["unguarded_since_at"] is None:
        session_rows.change(conn, session_id, {"unguarded_since_at": iso(now)})
