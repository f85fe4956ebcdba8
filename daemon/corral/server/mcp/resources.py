"""What an MCP client can read without calling a tool; JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from corral.coordination import features, locks
from corral.models.instants import iso
from corral.server.mcp import resources_handoffs, resources_mail, resources_work
from corral.server.mcp.calls import current
from corral.store import locks as lock_rows


async def locks_current() -> str:
    """Every live lock."""
    services = current.get().services
    now = iso(services.now())
    return json.dumps([locks.wire(row) for row in await services.read(lambda conn: lock_rows.listing(conn, now))])


async def features_active() -> str:
    """Every active feature."""
    return json.dumps(await current.get().services.read(features.active))


RESOURCES: dict[str, Callable[..., Awaitable[str]]] = {
    "locks://current": locks_current,
    "features://active": features_active,
    **resources_handoffs.RESOURCES,
    **resources_work.RESOURCES,
    **resources_mail.RESOURCES,
}
"""By URI; a part in braces is an argument."""
