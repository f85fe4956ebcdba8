"""Handoffs as a resource."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from corral.coordination import handoffs
from corral.server.mcp.calls import current

SHOWN = 20


async def handoffs_recent() -> str:
    """What sessions left for the next, newest first."""
    return json.dumps(await current.get().services.read(lambda conn: handoffs.recent(conn, None, SHOWN)))


RESOURCES: dict[str, Callable[..., Awaitable[str]]] = {"handoffs://recent": handoffs_recent}
