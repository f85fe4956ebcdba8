"""News for a person: needs and alerts that no notification has told yet, and the message that tells them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.config.sections.alerts import Notifications
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.redaction import redact, redact_values
from corral.core.visible import one_line
from corral.observe.alerts import store as alerts
from corral.observe.alerts.alerts import SHOWN_ELSEWHERE, wire
from corral.observe.view.needs_of_alerts import ALERT, NOTIFICATIONS
from corral.observe.view.needs_you import every_need
from corral.store.rows.records import AlertRow

if TYPE_CHECKING:
    from corral.coordination.services import Services

VERSION = 1
"""Of the message; grows when a field changes its meaning or goes."""
MOST_TOLD = 20
"""Needs, and alerts, in one message; it says how many it leaves out."""
FORGET_AFTER = timedelta(minutes=15)
"""A need that is gone and comes back sooner is no news."""
MOST_LINES = 4
NO_NEWS = frozenset({ALERT, NOTIFICATIONS})
"""Kinds of needs that are no news: an alert is notified as an alert, and no notification can report that notifications fail."""


@dataclass(frozen=True)
class News:
    """Needs and alerts to be told.

    Attributes:
        needs: By key.
        gone: Keys that were told and are needs no longer.
    """

    needs: Mapping[str, Payload]
    alerts: Sequence[AlertRow]
    gone: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.needs or self.alerts)


def news(services: Services, conn: Connection, now: datetime) -> News:
    """The news of this moment; runs in a read transaction."""
    news_of = (need.to_wire() for need in every_need(services, conn) if need.kind not in NO_NEWS)
    needs = {key_of(need): need for need in news_of}
    told_at = alerts.told_keys(conn)
    before = iso(now - FORGET_AFTER)
    gone = [key for key, at in told_at.items() if key not in needs and at < before]
    return News({key: need for key, need in needs.items() if key not in told_at}, alerts.untold(conn), gone)


def mark(conn: Connection, batch: News, now: datetime) -> None:
    """Record that a person was notified of this batch."""
    if batch.gone:
        alerts.forget_told(conn, batch.gone)
    if batch.needs:
        alerts.set_told(conn, list(batch.needs), iso(now))
    alerts.mark_told(conn, batch.alerts)


def key_of(need: Payload) -> str:
    """The identity of a need; it stays the same while the numbers in its sentence change."""
    about: Any = sorted(need["ids"].items()) or re.sub(r"\d+", "#", need["what"])
    return hashlib.sha256(json.dumps([need["kind"], about]).encode()).hexdigest()


def message(batch: News, *, delivery_id: str, project: str, now: datetime, is_test: bool = False) -> Payload:
    """The message for the webhook; every secret that is known or looks like one is removed.

    Returns:
        ``{version, delivery_id, at, project, test, needs_you, alerts, left_out}``.
    """
    needs, raised = list(batch.needs.values()), list(batch.alerts)
    left_out = max(0, len(needs) - MOST_TOLD) + max(0, len(raised) - MOST_TOLD)
    shown = {
        "project": project,
        "test": is_test,
        "needs_you": needs[:MOST_TOLD],
        "alerts": [wire(row) for row in raised[:MOST_TOLD]],
        "left_out": left_out,
    }
    return {"version": VERSION, "delivery_id": delivery_id, "at": iso(now), **redact_values(shown)}


def summary(batch: News, project: str) -> tuple[str, str] | None:
    """Title and text for a desktop; None where only alerts have resolved."""
    lines = [need["what"] for need in batch.needs.values()]
    raised = [row for row in batch.alerts if row["resolved_at"] is None]
    lines += [row["reason"] for row in raised if row["rule"] not in SHOWN_ELSEWHERE or not lines]
    if not lines:
        return None
    number = f"{len(lines)} things need you" if lines[1:] else "something needs you"
    shown = [redact(one_line(line))[:200] for line in lines[:MOST_LINES]]
    more = [f"and {len(lines) - MOST_LINES} more: corral status"] if lines[MOST_LINES:] else []
    return f"{one_line(project)[:40]}: {number}", "\n".join([*shown, *more])


# -- When news is told: collected for a moment, so many times an hour, and not in quiet hours. Pure functions of the
# instant

HOUR = timedelta(hours=1)


def quiet_until(hours: str | None, now: datetime) -> datetime | None:
    """The end of the quiet hours that the instant lies in; None: it lies in none.

    Args:
        hours: ``22:00-07:00``, by the clock of the time zone of ``now``; they may pass midnight. Equal ends: always quiet.
    """
    if hours is None:
        return None
    start, end = (_of_day(now, text) for text in hours.split("-"))
    if start < end:
        return end if start <= now < end else None
    if now < end:
        return end
    return end + timedelta(days=1) if now >= start else None


def due_at(
    first_seen: datetime, sent: Iterable[datetime], settings: Notifications, now: datetime, *, local: datetime
) -> datetime:
    """The instant from which on news may be told; not after ``now``: at once.

    Args:
        first_seen: When the oldest of it was noticed.
        sent: The instants of earlier notifications.
        local: ``now`` in the time zone of the machine.
    """
    due = min(first_seen, now) + timedelta(seconds=settings.group_s)
    latest = sorted(at for at in sent if timedelta(0) <= now - at < HOUR)
    if len(latest) >= settings.max_per_hour:
        due = max(due, latest[-settings.max_per_hour] + HOUR)
    if (quiet := quiet_until(settings.quiet_hours, local)) is not None:
        due = max(due, quiet.astimezone(now.tzinfo))
    return due


def _of_day(now: datetime, clock: str) -> datetime:
    hour, minute = clock.split(":")
    return now.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0)
