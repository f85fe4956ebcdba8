"""Alerts over HTTP."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field

from corral.coordination.services import Services
from corral.core.errors import Conflict
from corral.core.routing import EVERYONE, MACHINE, Routes
from corral.observe.alerts import alerts as operations
from corral.observe.alerts import store as alerts
from corral.observe.alerts.alerts import MOST_LISTED
from corral.observe.alerts.api import WAIT_S, Alert, DesktopTest, NotificationTest, NotificationTested, WebhookTest
from corral.observe.alerts.watch import AlertWatch
from corral.store.rows.records import DeliveryRow

router = Routes("alerts", "/alerts", scope=MACHINE, callers=EVERYONE)


@router.get("")
async def listing(
    services: Services, resolved: Annotated[bool, Field(description="Show resolved alerts too.")] = False
) -> list[Alert]:
    """The alerts, the latest first; open ones unless asked otherwise, 200 at most."""
    rows = await services.store.read(alerts.listing, with_resolved=resolved, limit=MOST_LISTED)
    return [operations.wire(row) for row in rows]


@router.post("/{alert_id}/acknowledge", errors=(Conflict,))
async def acknowledge(
    services: Services, alert_id: Annotated[str, Field(min_length=4, max_length=36, description="Or its beginning.")]
) -> Alert:
    """Mark an alert as seen: no reminder follows, until its cause is gone and comes back."""
    now = services.now()
    row = await services.store.write(operations.acknowledge, alert_id, now)
    services.nudge("alerts")
    return operations.wire(row)


@router.post("/test")
async def test(services: Services, options: NotificationTest | None = None) -> NotificationTested:
    """Send a notification that says it is a test on every way that is on, whatever the hour; tells what came of it."""
    now, chosen = services.now(), services.settings().notifications
    result = await services.work(lambda: services.of(AlertWatch).test(now))
    desktop: DesktopTest = {"state": "off", "problem": None}
    if chosen.desktop:
        problem = result["desktop"]
        desktop = {"state": "failed" if problem else "sent", "problem": problem}
    if (delivery_id := result["delivery_id"]) is None:
        state = "off" if chosen.webhook_url is None else "not_approved"
        webhook: WebhookTest = {"state": state, "tries": 0, "error": None, "delivery_id": None}
    else:
        row = await _delivery_once_tried(services, delivery_id, options.wait_s if options else WAIT_S)
        webhook = {"state": row["state"], "tries": row["tries"], "error": row["error"], "delivery_id": delivery_id}
    return {"bell": chosen.bell, "desktop": desktop, "webhook": webhook}


async def _delivery_once_tried(services: Services, delivery_id: str, wait_s: float) -> DeliveryRow:
    """Wait until a delivery was tried, for ``wait_s`` at most; returns its row."""
    until = time.monotonic() + wait_s
    while True:
        row = await services.store.read(alerts.delivery, delivery_id)
        assert row is not None, "it was just stored, and stays for days"
        left = until - time.monotonic()
        if row["state"] != "waiting" or row["error"] is not None or left <= 0 or services.stopping:
            return row
        await services.changes.next(min(left, 1.0))
