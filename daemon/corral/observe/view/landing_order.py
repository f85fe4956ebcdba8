"""The landing queue in its order, with how each request stands, for the view."""

from __future__ import annotations

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.payload import Payload, picked
from corral.core.states import OPEN_MERGES
from corral.landing import standing
from corral.work.merges.store import merges
from corral.work.merges.wire import needs_approval

_SHOWN = ("merge_id", "task_id", "title", "branch", "target", "state", "priority", "created_at")


def queue(services: Services, conn: Connection, most: int) -> Payload:
    """The open merge requests, target by target in landing order: ``queue``, and how many more there are."""
    entries = [
        {**picked(row, _SHOWN), **how, "needs_approval": needs_approval(row)}
        for row, how in standing.of_open(conn, most, services.settings().landing.ageing_s, services.now())
    ]
    counts = merges.counts(conn)
    return {"queue": entries, "queue_left_out": sum(counts.get(state, 0) for state in OPEN_MERGES) - len(entries)}
