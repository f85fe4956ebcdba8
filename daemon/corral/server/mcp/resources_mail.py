"""Agent Mail's resources: inboxes, threads, reservations."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination import messages
from corral.coordination.addresses import Identity
from corral.models.instants import iso
from corral.server.mcp.acting import act, look
from corral.server.mcp.calls import Answer, current, raised
from corral.server.mcp.tools.mail import entry
from corral.store import locks as lock_rows


@raised
async def inbox(
    agent: str,
    project: str = "",
    since_ts: str = "",
    urgent_only: bool = False,
    include_bodies: bool = False,
    limit: int = 20,
) -> str:
    """An inbox of your own, the newest first."""

    def fetch(conn: Connection, me: Identity, now: datetime) -> Answer:
        found = messages.inbox(conn, me.session_id, urgent_only=urgent_only, since_ts=since_ts or None, limit=limit)
        mail = [entry(row, bodies=include_bodies) for row in found]
        return {"agent": me.name, "count": len(mail), "messages": mail}

    return _told(await act(project, agent, fetch))


@raised
async def thread(thread_id: str, project: str = "", include_bodies: bool = False) -> str:
    """The messages of a thread, the oldest first."""
    found = await look(project, lambda conn: messages.thread(conn, thread_id))
    return _told({"thread_id": thread_id, "messages": [entry(row, bodies=include_bodies) for row in found]})


@raised
async def file_reservations(slug: str, active_only: bool = True) -> str:
    """Every live reservation and lock of the project."""
    now = iso(current.get().services.now())
    rows = await look(slug, lambda conn: lock_rows.listing(conn, now))
    return json.dumps(
        [
            {
                "id": row["lock_id"],
                "agent": row["agent_name"],
                "path_pattern": row["file_path"],
                "exclusive": bool(row["exclusive"]),
                "reason": row["reason"] or "",
                "created_ts": row["acquired_at"],
                "expires_ts": row["expires_at"],
                "released_ts": None,
            }
            for row in rows
        ]
    )


def _told(answer: Answer) -> str:
    return json.dumps({"project": str(current.get().services.project.root), **answer})


RESOURCES: dict[str, Callable[..., Awaitable[str]]] = {
    "resource://inbox/{agent}{?project,since_ts,urgent_only,include_bodies,limit}": inbox,
    "resource://thread/{thread_id}{?project,include_bodies}": thread,
    "resource://file_reservations/{slug}{?active_only}": file_reservations,
}
