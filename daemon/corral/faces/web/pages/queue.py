"""The page of the landing queue: its order with reasons, and its candidates as a graph."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.pages import page as one_page
from corral.core.payload import Payload
from corral.core.states import OPEN_MERGES, MergeState
from corral.faces.web.live import following
from corral.faces.web.pages import graph
from corral.faces.web.visit import Visit
from corral.observe.view import landing_order
from corral.store import events
from corral.work.merges.store import merges, pauses
from corral.work.merges.wire import outcome_of

MOST_OPEN = 200
MOST_DRAWN = 40
"""Requests in the graph; the table has the others."""
MOST_ENDED = 30
ENDED = tuple(state for state in MergeState if state not in OPEN_MERGES)


async def page(services: Services, _visit: Visit, _item: str) -> dict[str, Any]:
    """The queue."""
    now = services.now()

    def look(conn: Connection) -> dict[str, Any]:
        return {
            **landing_order.queue(conn, now, MOST_OPEN),
            "rows": merges.in_order(conn, MOST_DRAWN),
            "paused": pauses.paused(conn),
            "ended": _ended(conn),
            "seq": events.newest(conn),
        }

    shown = await services.store.read(look)
    drawings = graph.of_targets(shown.pop("rows"))
    return {**shown, "title": "Queue", "drawings": drawings, "live": following(shown["seq"])}


def _ended(conn: Connection) -> list[Payload]:
    rows = sorted(merges.latest_ended(conn, MOST_ENDED), key=lambda row: row["finished_at"] or "", reverse=True)
    return one_page(({**row, "outcome": outcome_of(row)} for row in rows), MOST_ENDED).rows
