"""Instants on the wire and in the database: UTC, ISO 8601, milliseconds, so that text order is time order."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

UTC = timezone.utc


@lru_cache(maxsize=64)  # one step writes the same instant into several rows
def iso(moment: datetime) -> str:
    """Write an aware datetime as ``2026-11-21T22:10:00.123Z``.

    Raises:
        ValueError: ``moment`` has no timezone.
    """
    if moment.tzinfo is None:
        raise ValueError("an instant needs a timezone")
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")[:-6] + "Z"  # ten times faster than strftime


def parse(text: str) -> datetime:
    """Parse the output of :func:`iso`."""
    return datetime.fromisoformat(f"{text[:-1]}+00:00")  # ten times faster than strptime


def lasted_s(began_at: str | None, ended_at: str | None) -> float | None:
    """Seconds from one instant, as text, to another; None where either is not known."""
    return (parse(ended_at) - parse(began_at)).total_seconds() if began_at and ended_at else None


_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
LONGEST_SPAN_S = 3_650 * 86_400.0


def span_s(text: str) -> float:
    """The seconds of a span of time as people write it: ``90s``, ``15m``, ``12h``, ``7d``, ``2w``.

    Raises:
        ValueError: It is no span, or is longer than ten years.
    """
    match = _SPAN.fullmatch(text.strip().lower())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not 0 < seconds <= LONGEST_SPAN_S:
        raise ValueError(f"{text[:40]!r} is no span of time")
    return seconds


def after(moment: datetime, seconds: float) -> str:
    """The instant ``seconds`` after ``moment``, as text."""
    return iso(moment + timedelta(seconds=seconds))


def when_landed(expected_s: float | None) -> str:
    """When a request lands by what is expected, for a sentence; empty: nothing is."""
    if not expected_s:
        return "" if expected_s is None else "takes longer than usual"
    return f"lands in about {in_words(expected_s)}"


def short_span(seconds: float) -> str:
    """A duration in its largest unit, for a column: ``5s``, ``12m``, ``3h``, ``8d``."""
    for unit in ("d", "h", "m"):
        if seconds >= _UNITS_S[unit]:
            return f"{seconds // _UNITS_S[unit]:.0f}{unit}"
    return f"{max(0, int(seconds))}s"


def in_words(seconds: float) -> str:
    """A duration as people say it, in its largest unit: ``12 min``."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
