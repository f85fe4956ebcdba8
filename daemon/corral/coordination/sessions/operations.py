"""Sessions over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination import caller_process
from corral.coordination.mail import addresses
from corral.coordination.services import Services
from corral.coordination.sessions import claims, discovery, session_end, tokens
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import sweep as session_sweep
from corral.coordination.sessions.actor import person
from corral.coordination.sessions.api import (
    DEFAULT_THRESHOLD_MINUTES,
    Alive,
    Cleaned,
    Cleanup,
    End,
    Ended,
    GoesBy,
    ListedSession,
    Naming,
    RegisteredName,
    RegisteredSession,
    Registration,
    SessionId,
)
from corral.coordination.sessions.claims import refusals
from corral.coordination.sessions.processes import terminal_of
from corral.coordination.sessions.registry import Arrival, EndedSession
from corral.coordination.sessions.store import names
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import Conflict, LimitReached, NotFound
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.pages import MOST, Page, answer, page
from corral.core.payload import Payload, shaped
from corral.core.redaction import redact
from corral.core.routing import EVERYONE, MACHINE, PEER, Routes
from corral.core.states import ShownStatus
from corral.runners.process import start_time
from corral.store.rows.sessions import NameRow, SessionRow

router = Routes("sessions", "/sessions", scope=MACHINE, callers=EVERYONE)


@router.get("", answer=list[ListedSession])
async def listing(
    services: Services,
    request: Request,
    status: Annotated[Sequence[ShownStatus], Field(description="Only these statuses.")] = (),
    capability: Annotated[str | None, Field(max_length=64, description="Only sessions with this capability.")] = None,
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[
        str | None, Field(max_length=256, description="`started_at,session_id` of the last one known.")
    ] = None,
) -> Response:
    """Every session of the project, the latest first, disconnected ones too unless filtered."""
    of_team = services.teams().capabilities

    def look(conn: Connection) -> Page:
        rows = discovery.everyone(conn, capability, [str(value) for value in status], of_team, after=after)
        return page(({**_shown(row), "names": row["names"]} for row in rows), limit)

    return answer(request, await services.store.read(look), lambda row: {"after": discovery.cursor(row)})


def whole(conn: Connection, row: SessionRow, of_team: discovery.Capabilities) -> Payload:
    """A session with the names that it goes by, and as what it registered them."""
    (able,) = discovery.able(conn, [row], of_team)
    registered = [shaped(RegisteredName, name) for name in names.of_session(conn, row["session_id"])]
    return {**_shown(able), "names": able["names"], "registered": registered}


def _shown(row: SessionRow) -> Payload:
    """A session with the terminal in which its process runs."""
    session = session_registry.wire(row)
    return {**session, "terminal": terminal_of(session["pid"])}


@router.post("/cleanup", answer=Cleaned)
async def cleanup(services: Services, body: Cleanup | None = None) -> Payload:
    """Give up the sessions whose process is gone or that were silent too long: what they hold comes free."""
    return await session_sweep.clean_up(services, body.stale_threshold_minutes if body else DEFAULT_THRESHOLD_MINUTES)


@router.post("", status=201, answer=RegisteredSession, errors=(Conflict, LimitReached))
async def register(services: Services, request: Request, body: Registration) -> Payload:
    """Register a session, or update the one with that id. Over TCP a new one gets a ``registration_token``."""
    now, over_tcp = services.now(), caller_process.is_tcp(request.scope)
    token = tokens.make_token() if body.session_id is None and over_tcp else ""
    peer = request.scope.get(PEER)
    client_pid = (
        peer.here(body.client_pid) if peer is not None and not over_tcp else None
    )  # else nothing shows whose it is
    who = await claims.require_speaker(services, request.scope, body.session_id)
    newcomer = Arrival(
        session_id=body.session_id or tokens.session_of(token) or new_id(),
        agent_name=body.agent_name,
        capabilities=discovery.check_capabilities(body.capabilities),
        current_task=body.current_task and redact(body.current_task),
        client_pid=client_pid,
        client_started=start_time(client_pid) if client_pid else None,
        cwd=body.cwd,
    )

    def enter(conn: Connection) -> SessionRow:
        session = session_rows.get(conn, newcomer.session_id) if body.agent_type is None else None
        kind = body.agent_type or (session["agent_type"] if session else newcomer.agent_type)
        kind = session_registry.BY_HTTP if token else kind
        for predecessor in session_registry.predecessors(conn, newcomer):  # they are ended by it
            who.check(conn, predecessor)
        return session_end.arrive(conn, replace(newcomer, agent_type=kind), now, services.offer_again)

    async with refusals(services, who.session_id):
        row = await services.store.write(enter)
    services.nudge("sessions")
    if newcomer.client_pid is not None:  # another session of the same client is over: what it held has come free
        services.nudge("supervisor")
    return {"success": True, **session_registry.wire(row), **({"registration_token": token} if token else {})}


@router.post("/{session_id}/names", status=201, errors=(Conflict,))
async def go_by(services: Services, request: Request, session_id: SessionId, body: Naming) -> GoesBy:
    """Register a session under a further name, or with what it is under one; unread mail to the name comes with it."""
    now = services.now()
    await claims.require_speaker(services, request.scope, session_id)

    def bind(conn: Connection) -> NameRow:
        row = session_rows.beat(conn, session_id, iso(now))
        if row is None:
            raise NotFound(
                f"There is no live session {session_id[:80]!r}.",
                cause="It has ended, or never registered.",
                remedy="`corral session register` makes one.",
            )
        return give_name(conn, session_id, row["agent_name"], body, now)

    bound = await services.store.write(bind)
    services.changes.announce()
    return {"success": True, "session_id": session_id, **shaped(RegisteredName, bound)}


def give_name(conn: Connection, session_id: str, own: str, naming: Naming, now: datetime) -> NameRow:
    """Give a session a name, or say what it is under one that it has; without one, under its ``own``."""
    about = naming.model_dump(include={"program", "model", "task_description"}, exclude_none=True)
    if naming.task_description:
        session_registry.change(conn, session_id, {"current_task": redact(naming.task_description)})
    name = addresses.unused(conn, naming.name) if naming.new else naming.name or own
    return addresses.bind(conn, session_id, name, now, **about)


@router.post("/{session_id}/heartbeat", finds=False, audited=False, errors=(LimitReached,))
async def heartbeat(services: Services, request: Request, session_id: SessionId) -> Alive:
    """Record a heartbeat; a session that is unknown, or was given up, is registered again."""
    now = services.now()
    await claims.require_speaker(services, request.scope, session_id)

    def beat(conn: Connection) -> None:
        if session_rows.touch(conn, session_id, iso(now)) is None:
            session_registry.register(conn, Arrival(session_id=session_id), now)

    await services.store.write(beat)
    return {"success": True, "session_id": session_id}


@router.post("/{session_id}/end", finds=False)
async def end(services: Services, request: Request, session_id: SessionId, body: End | None = None) -> Ended:
    """End a session: what it holds comes free. Another session is refused, a person put on record."""
    now = services.now()
    who = await claims.require_speaker(services, request.scope, session_id)
    caller = (body.caller if body else None) or who.session_id or person()

    def over(conn: Connection) -> EndedSession | None:
        by = None if who.over_tcp else addresses.acting_for(conn, session_id, caller, person())
        return session_end.end(conn, session_id, "ended", now, services.offer_again, by=by)

    async with refusals(services, caller):
        row = await services.store.write(over)
    services.nudge("supervisor")
    return {"success": True, "session_id": session_id, "ended": row is not None}
