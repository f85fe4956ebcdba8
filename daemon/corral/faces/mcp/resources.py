"""The resources that an MCP client can read without calling a tool; JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from sqlalchemy import Connection

from corral.coordination.features import registry as feature_registry
from corral.coordination.handoffs import handoffs
from corral.coordination.locks import table as lock_table
from corral.coordination.locks.tools import coordinator_answers
from corral.coordination.sessions.store import traces
from corral.core.pages import MOST, SHOWN_BYTES, Page, page
from corral.core.payload import Payload, picked
from corral.core.states import OPEN_MERGES, TaskStatus
from corral.faces.mcp import resources_mail
from corral.faces.mcp.acting import contents
from corral.faces.mcp.calls import current
from corral.landing.pauses import explained
from corral.work.merges import wire as merge_shapes
from corral.work.merges.store import merges
from corral.work.tasks.store import lists

HANDOFFS = 20
_OF_TASK = ("task_id", "task_type", "title", "status", "priority", "thread_id", "created_at")
_AT_ONCE = 32


async def _fitting(rows: Callable[[Connection], Iterable[Payload]]) -> Page:
    return await current.get().services.store.read(lambda conn: page(rows(conn), size=SHOWN_BYTES))


async def locks_current() -> Any:
    """The live locks, the oldest first."""
    now = current.get().services.now()
    listed = await _fitting(
        lambda conn: coordinator_answers(conn, lock_table.listing(conn, now, after=None, limit=MOST))
    )
    return contents(
        listed.rows, f"check_locks with after={lock_table.cursor(listed.last)!r} goes on" if listed.more else None
    )


async def features_active() -> Any:
    """The active features, the oldest first."""
    listed = await _fitting(feature_registry.active)
    return contents(listed.rows, "get_feature and GET /api/v1/features tell the rest" if listed.more else None)


async def handoffs_recent() -> Any:
    """Handoffs, newest first."""
    listed = await _fitting(lambda conn: handoffs.recent(conn, None, HANDOFFS))
    return contents(listed.rows, "read_handoff tells an agent's" if listed.cut else None)


async def work_pending() -> Any:
    """Tasks that wait: for a session to claim them, or for a worker."""
    listed = await _fitting(_pending)
    return contents(listed.rows, "GET /api/v1/tasks tells the rest" if listed.more else None)


def _pending(conn: Connection) -> Iterator[dict[str, Any]]:
    waiting = lists.listing(conn, statuses=(TaskStatus.PENDING, TaskStatus.WAITING), limit=MOST)
    ids = [row["task_id"] for row in waiting]
    for at in range(0, len(ids), _AT_ONCE):
        some = ids[at : at + _AT_ONCE]
        whole = {row["task_id"]: row for row in traces.tasks_of(conn, some)}
        for row in map(whole.__getitem__, some):
            yield {**picked(row, _OF_TASK), "claimable": row["runner"] is None}


async def merges_queue() -> Any:
    """Open merge requests, in order of submission."""
    listed = await _fitting(
        lambda conn: map(merge_shapes.summary, explained(conn, merges.listing(conn, OPEN_MERGES, limit=MOST)))
    )
    return contents(listed.rows, "GET /api/v1/merges tells the rest" if listed.more else None)


RESOURCES: dict[str, Callable[..., Awaitable[Any]]] = {
    "locks://current": locks_current,
    "features://active": features_active,
    "handoffs://recent": handoffs_recent,
    "work://pending": work_pending,
    "merges://queue": merges_queue,
    **resources_mail.RESOURCES,
}
"""By URI; a part in braces is an argument."""
