"""The numbers of this moment in a scrape: those of the view that every face shows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.coordination.sessions.store import sessions
from corral.core.payload import Payload
from corral.observe.view.needs_you import needs_you
from corral.work.merges.store import merges

if TYPE_CHECKING:
    from corral.coordination.services import Services


def present(services: Services, conn: Connection) -> Payload:
    """``{needs_you, merges, sessions}``: what needs a person by kind, all requests by state, connected sessions by status."""
    return {
        "needs_you": Counter(need["kind"] for need in needs_you(services, conn)),
        "merges": merges.counts(conn),
        "sessions": Counter(str(sessions.shown_status(row)) for row in sessions.live(conn)),
    }
