"""JSON objects on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

_Shape = TypeVar("_Shape")

Payload = dict[str, Any]
"""A JSON object: on the wire, in an event's data, as a task's result."""


def picked(whole: Mapping[str, Any], names: Iterable[str]) -> Payload:
    """Select fields of a row or another mapping."""
    return {name: whole[name] for name in names}


def shaped(shape: type[_Shape], whole: Mapping[str, Any], **others: Any) -> _Shape:
    """Select the fields that a type of answers has; ``others`` are those that a row has not, or has otherwise."""
    return cast("_Shape", picked({**whole, **others}, shape.__annotations__))
