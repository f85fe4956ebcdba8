"""The daemon's clock: the one place that reads the machine's time; domain code gets instants as arguments."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> datetime:
    """This instant, in UTC."""
    return datetime.now(timezone.utc)
