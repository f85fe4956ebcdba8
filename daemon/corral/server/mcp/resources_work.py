"""Resources: what waits to be worked on, and to be merged."""

from __future__ import annotations

import json

from sqlalchemy import Connection

from corral.models import merges as merge_shapes
from corral.models.states import OPEN_MERGES, TaskStatus
from corral.server.mcp.calls import current
from corral.store import merges, tasks


async def work_pending() -> str:
    """Tasks that wait: for a session to claim them, or for a worker."""
    return json.dumps(await current.get().services.read(_pending))


def _pending(conn: Connection) -> list[dict[str, object]]:
    shown = ("task_id", "task_type", "title", "status", "priority", "thread_id", "created_at")
    rows = [
        row
        for offered in (True, False)
        for row in tasks.in_status(conn, TaskStatus.PENDING, TaskStatus.WAITING, offered=offered)
    ]
    rows.sort(key=lambda row: (-row["priority"], row["seq"]))
    return [{**{name: row[name] for name in shown}, "claimable": row["runner"] is None} for row in rows]


async def merges_queue() -> str:
    """Open merge requests, in order of submission."""
    rows = await current.get().services.read(lambda conn: merges.listing(conn, OPEN_MERGES))
    return json.dumps([merge_shapes.summary(row) for row in rows])


RESOURCES = {"work://pending": work_pending, "merges://queue": merges_queue}
