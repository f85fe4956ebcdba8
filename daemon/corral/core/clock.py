"""The daemon's clock: the one place that asks the machine for the time; domain code is given instants."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> datetime:
    """This instant, in UTC."""
    return datetime.now(timezone.utc)
