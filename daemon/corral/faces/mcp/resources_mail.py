"""Agent Mail's resources: inboxes, threads, reservations."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.locks import table as lock_table
from corral.coordination.mail import mailbox
from corral.coordination.mail.addresses import Identity
from corral.coordination.mail.api import LAST
from corral.coordination.mail.tools import entry
from corral.core.pages import MOST, SHOWN_BYTES, Page, page
from corral.core.payload import Payload
from corral.faces.mcp.acting import act, contents, known_as, look
from corral.faces.mcp.calls import current, mail_tool


@mail_tool
async def inbox(
    agent: str,
    project: str = "",
    since_ts: str = "",
    urgent_only: bool = False,
    include_bodies: bool = False,
    limit: int = 20,
    before: int = 0,
) -> str:
    """An inbox of your own, the newest first."""

    def fetch(conn: Connection, me: Identity, now: datetime) -> Payload:
        rows = mailbox.inbox(
            conn,
            me.session_id,
            urgent_only=urgent_only,
            since_ts=since_ts or None,
            before=(before, LAST) if before else None,
            limit=limit,
        )
        mail = page((entry(row, bodies=include_bodies) for row in rows), size=SHOWN_BYTES)
        return {"agent": me.name, "count": len(mail.rows), "messages": mail.rows, **_left_out(mail)}

    return _json_text(await act(project, agent, fetch))


@mail_tool
async def thread(thread_id: str, project: str = "", include_bodies: bool = False, before: int = 0) -> str:
    """The last messages of a thread, the oldest first."""

    def fetch(conn: Connection) -> Page:
        rows = mailbox.thread(conn, thread_id, before=before or None)
        return page((entry(row, bodies=include_bodies) for row in rows), size=SHOWN_BYTES)

    messages = await look(project, fetch)
    return _json_text({"thread_id": thread_id, "messages": messages.rows[::-1], **_left_out(messages)})


def _left_out(listed: Page) -> Payload:
    return {"left_out": f"before={listed.last['id']} tells what is older."} if listed.cut else {}


@mail_tool
async def file_reservations(slug: str, active_only: bool = True, after: str = "") -> Any:
    """The live reservations and locks of the project."""
    now = current.get().services.now()

    def fetch(conn: Connection) -> tuple[Page, dict[str, str]]:
        locks = page(lock_table.listing(conn, now, after=after, limit=MOST), size=SHOWN_BYTES)
        return locks, known_as(conn, ((row["session_id"], row["locked_by"]) for row in locks.rows))

    locks, called = await look(slug, fetch)
    rows = [_reservation(row, called[row["session_id"]]) for row in locks.rows]
    return contents(rows, f"after={lock_table.cursor(locks.last)}" if locks.more else None)


def _reservation(row: Payload, called: str) -> Payload:
    """A lock as Agent Mail shows one."""
    return {
        "id": row["lock_id"],
        "agent": called,
        "path_pattern": row["file_path"],
        "exclusive": row["exclusive"],
        "reason": row["reason"] or "",
        "created_ts": row["acquired_at"],
        "expires_ts": row["expires_at"],
        "released_ts": None,
    }


def _json_text(answer: Payload) -> str:
    return json.dumps({"project": str(current.get().services.project.root), **answer})


RESOURCES: dict[str, Callable[..., Awaitable[Any]]] = {
    "resource://inbox/{agent}{?project,since_ts,urgent_only,include_bodies,limit,before}": inbox,
    "resource://thread/{thread_id}{?project,include_bodies,before}": thread,
    "resource://file_reservations/{slug*}{?active_only,after}": file_reservations,
}
