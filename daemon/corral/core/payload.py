"""JSON objects on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Payload = dict[str, Any]
"""A JSON object: on the wire, in an event's data, as a task's result."""


def picked(whole: Mapping[str, Any], names: Iterable[str]) -> Payload:
    """Select fields of a row or another mapping."""
    return {name: whole[name] for name in names}
