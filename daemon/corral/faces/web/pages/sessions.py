"""The pages of sessions: the list with all locks, and one session with what it does, holds, made and was written."""

from __future__ import annotations

from secrets import token_hex
from typing import Any

from sqlalchemy import Connection

from corral.coordination.locks import table as lock_table
from corral.coordination.mail import mailbox
from corral.coordination.services import Services
from corral.coordination.sessions import discovery
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.store import traces
from corral.core.pages import page as one_page
from corral.core.payload import Payload
from corral.core.states import ShownStatus
from corral.core.visible import waiting
from corral.faces.web.actions import Button
from corral.faces.web.live import following
from corral.faces.web.rendering import Visit
from corral.observe.view.needs_you import needs_you
from corral.store import events
from corral.work.merges import session_operations

MOST_LOCKS = 1000
MOST_SESSIONS = 200
MOST_EVENTS = 60
MOST_MESSAGES = 20
LIVE = tuple(str(status) for status in ShownStatus if status != ShownStatus.DISCONNECTED)


async def live_locks(services: Services) -> list[Payload]:
    """The live locks, the oldest first."""
    now = services.now()
    return await services.store.read(lock_table.listing, now, after=None, limit=MOST_LOCKS)


async def listing(services: Services, visit: Visit, _item: str) -> dict[str, Any]:
    """The sessions, the latest first, and every lock."""
    everyone, of_team = visit.query.get("show") == "all", services.teams().capabilities

    def look(conn: Connection) -> tuple[list[Payload], bool, int]:
        sessions = discovery.everyone(conn, None, [] if everyone else [*LIVE], of_team)
        page = one_page((session_registry.wire(row) for row in sessions), MOST_SESSIONS)
        return page.rows, page.more, events.newest(conn)

    rows, more, seq = await services.store.read(look)
    return {
        "title": "Sessions", "sessions": [_with_wait(row) for row in rows], "more": more, "everyone": everyone,
        "locks": [_with_button(lock) for lock in await live_locks(services)], "live": following(seq),
    }  # fmt: skip


async def page(services: Services, _visit: Visit, item: str) -> dict[str, Any]:
    """One session."""
    session = await session_operations.detail(services, item)
    who = session["session_id"]

    def look(conn: Connection) -> tuple[list[Payload], list[Payload], list[Payload], int]:
        mail = mailbox.inbox(conn, who, blind=False, limit=MOST_MESSAGES)
        history: list[Payload] = [{**event} for event in traces.events_of(conn, [who])[-MOST_EVENTS:]]
        needs = [need for need in needs_you(conn, services) if need["ids"].get("session_id") == who]
        return [{**message} for message in mail], history[::-1], needs, events.newest(conn)

    mail, history, needs, seq = await services.store.read(look)
    locks = [_with_button(lock) for lock in await live_locks(services) if lock["session_id"] == who]
    return {
        "title": session["agent_name"], "session": _with_wait(session), "mail": mail, "history": history, "locks": locks,
        "needed": needs, "live": following(seq), "message": Button.of("sessions", session["agent_name"], "message"),
        "key": token_hex(16), "is_live": session["status"] != ShownStatus.DISCONNECTED,
    }  # fmt: skip


def _with_wait(session: Payload) -> Payload:
    return {**session, "waits": waiting(session["waiting_for"]) if session["waiting_for"] else ""}


def _with_button(lock: Payload) -> Payload:
    return {**lock, "button": Button.of("locks", lock["lock_id"], "release")}
