"""Needs of a person from alerts: open, unacknowledged, and shown by nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.core.needs import Need
from corral.observe.alerts import alerts as operations

if TYPE_CHECKING:
    from corral.coordination.services import Services

ALERT = "alert"
"""The kind of these needs."""
NOTIFICATIONS = "notifications"
"""The kind of the need that notifications do not arrive."""


def open_alerts(_services: Services, conn: Connection) -> Iterator[Need]:
    """The alerts, the latest first."""
    for row in operations.waiting_for_a_person(conn):
        remedy = f"{row['remedy'].rstrip('.')}. No reminder: corral alert ack {row['alert_id'][:8]}"
        yield Need(ALERT, row["reason"], remedy, row["first_raised_at"], {"alert_id": row["alert_id"]})
