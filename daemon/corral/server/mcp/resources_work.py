"""Resources: what waits to be worked on, and to be merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from corral.app.pages import MOST, SHOWN_BYTES, Page, page
from corral.models import merges as merge_shapes
from corral.models.payload import picked
from corral.models.states import OPEN_MERGES, TaskStatus
from corral.server.mcp.acting import contents
from corral.server.mcp.calls import current
from corral.store.merges import merges
from corral.store.sessions import traces
from corral.store.tasks import tasks

_SHOWN = ("task_id", "task_type", "title", "status", "priority", "thread_id", "created_at")
_AT_ONCE = 32


async def work_pending() -> Any:
    """Tasks that wait: for a session to claim them, or for a worker."""
    found = await current.get().services.store.read(lambda conn: page(_pending(conn), size=SHOWN_BYTES))
    return contents(found.rows, "GET /api/v1/tasks tells the rest" if found.more else None)


def _pending(conn: Connection) -> Iterator[dict[str, Any]]:
    waiting = tasks.listing(conn, statuses=(TaskStatus.PENDING, TaskStatus.WAITING), limit=MOST)
    ids = [row["task_id"] for row in waiting]
    for at in range(0, len(ids), _AT_ONCE):
        some = ids[at : at + _AT_ONCE]
        whole = {row["task_id"]: row for row in traces.tasks_of(conn, some)}
        for row in map(whole.__getitem__, some):
            yield {**picked(row, _SHOWN), "claimable": row["runner"] is None}


async def merges_queue() -> Any:
    """Open merge requests, in order of submission."""

    def look(conn: Connection) -> Page:
        return page(map(merge_shapes.summary, merges.listing(conn, OPEN_MERGES, limit=MOST)), size=SHOWN_BYTES)

    found = await current.get().services.store.read(look)
    return contents(found.rows, "GET /api/v1/merges tells the rest" if found.more else None)


RESOURCES = {"work://pending": work_pending, "merges://queue": merges_queue}
