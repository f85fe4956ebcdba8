"""The page of the landing queue: its lanes, its candidates as a graph, and what landed in the last day."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.pages import page as one_page
from corral.core.payload import Payload
from corral.core.states import OPEN_MERGES, MergeState
from corral.faces.web.live import following
from corral.faces.web.pages import graph
from corral.faces.web.rendering import Visit
from corral.landing import pauses
from corral.observe.metrics import figures
from corral.observe.view import landing_order
from corral.store import events
from corral.work.merges.store import merges
from corral.work.merges.wire import outcome_of
from corral.work.swarm import swarm

MOST_OPEN = 200
MOST_DRAWN = 40
"""Requests in the graph; the lanes have the others."""
MOST_ENDED = 30
HISTORY = timedelta(days=1)
ENDED = tuple(state for state in MergeState if state not in OPEN_MERGES)


async def page(services: Services, _visit: Visit, _item: str) -> dict[str, Any]:
    """The queue."""
    now = services.now()

    def look(conn: Connection) -> dict[str, Any]:
        return {
            **landing_order.queue(services, conn, MOST_OPEN),
            "working": swarm.members(conn)[:MOST_OPEN],
            "rows": merges.in_order(conn, MOST_DRAWN),
            "stopped": pauses.stops(conn),
            "ended": _ended(conn),
            "history": figures.collect(conn, now - HISTORY, None),
            "seq": events.newest(conn),
        }

    shown = await services.store.read(look)
    drawings = graph.of_targets(shown.pop("rows"))
    verifying = [row for row in shown["queue"] if row["slot"] is not None]
    waiting = [row for row in shown.pop("queue") if row["slot"] is None]
    lanes = {"verifying": sorted(verifying, key=lambda row: (row["slot"], row["position"])), "waiting": waiting}
    return {**shown, **lanes, "title": "Queue", "drawings": drawings, "live": following(shown["seq"])}


def _ended(conn: Connection) -> list[Payload]:
    rows = sorted(merges.latest_ended(conn, MOST_ENDED), key=lambda row: row["finished_at"] or "", reverse=True)
    return one_page(({**row, "outcome": outcome_of(row)} for row in rows), MOST_ENDED).rows
