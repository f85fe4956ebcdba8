"""The resources that an MCP client can read without calling a tool; JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import Connection

from corral.app.pages import MOST, SHOWN_BYTES, Page, page
from corral.coordination.features import registry as feature_registry
from corral.coordination.locks import table as lock_table
from corral.server.mcp import resources_handoffs, resources_mail, resources_work
from corral.server.mcp.acting import contents
from corral.server.mcp.calls import current
from corral.server.mcp.tools.locks import coordinator_answers


async def locks_current() -> Any:
    """The live locks, the oldest first."""
    services, now = current.get().services, current.get().services.now()

    def look(conn: Connection) -> Page:
        return page(coordinator_answers(conn, lock_table.listing(conn, now, after=None, limit=MOST)), size=SHOWN_BYTES)

    found = await services.store.read(look)
    return contents(
        found.rows, f"check_locks with after={lock_table.cursor(found.last)!r} goes on" if found.more else None
    )


async def features_active() -> Any:
    """The active features, the oldest first."""
    found = await current.get().services.store.read(lambda conn: page(feature_registry.active(conn), size=SHOWN_BYTES))
    return contents(found.rows, "get_feature and GET /api/v1/features tell the rest" if found.more else None)


RESOURCES: dict[str, Callable[..., Awaitable[Any]]] = {
    "locks://current": locks_current,
    "features://active": features_active,
    **resources_handoffs.RESOURCES,
    **resources_work.RESOURCES,
    **resources_mail.RESOURCES,
}
"""By URI; a part in braces is an argument."""
