"""When news is told: collected for a moment, so many times an hour, and not in quiet hours. Pure functions of the instant."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from corral.config.sections.alerts import Notifications

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
