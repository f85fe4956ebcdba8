"""Handoffs as a resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from corral.app.pages import SHOWN_BYTES, page
from corral.coordination.sessions import handoffs
from corral.server.mcp.acting import contents
from corral.server.mcp.calls import current

SHOWN = 20


async def handoffs_recent() -> Any:
    """Handoffs, newest first."""
    services = current.get().services
    found = await services.store.read(lambda conn: page(handoffs.recent(conn, None, SHOWN), size=SHOWN_BYTES))
    return contents(found.rows, "read_handoff tells an agent's" if found.cut else None)


RESOURCES: dict[str, Callable[..., Awaitable[Any]]] = {"handoffs://recent": handoffs_recent}
