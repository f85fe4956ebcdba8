"""What is built for an answer or read from one: neither a row nor a setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Payload = dict[str, Any]
"""A JSON object as it travels: on the wire, in an event's data, as a task's result."""


def picked(whole: Mapping[str, Any], names: Iterable[str]) -> Payload:
    """Some fields of a row, or of anything else with names."""
    return {name: whole[name] for name in names}
