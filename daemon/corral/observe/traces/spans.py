"""A span, its identifiers, and its attributes: without secrets, of bounded size.

Identifiers are derived from those of the task, of the part and of the event: a span that is sent twice is the same span.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from corral.core.bounds import Bounds

Value = str | int | float | bool
"""Of an attribute."""
MOST_LINKS = 100
"""Links of one span."""
_BOUNDS = Bounds(text=500)


class Link(NamedTuple):
    """The span of another trace."""

    trace_id: str
    span_id: str


class Mark(NamedTuple):
    """What happened within a span, at an instant."""

    name: str
    at: datetime
    attributes: Mapping[str, Value]


@dataclass(frozen=True)
class Span:
    """A part of a task's life, or a message.

    Attributes:
        trace_id: 32 hex digits.
        span_id: 16 hex digits; the same whenever the same part is told again.
        parent_id: Of the span that this one is a part of; None: of none.
        is_error: Whether this part failed; None: neither that nor a success.
        attributes: Without secrets, and without those that have no value.
        links: At most :data:`MOST_LINKS`.
    """

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    start: datetime
    end: datetime
    attributes: Mapping[str, Value]
    is_error: bool | None = None
    links: Sequence[Link] = field(default=())
    marks: Sequence[Mark] = field(default=())
    is_message: bool = False


def trace_id(owner_id: str) -> str:
    """The trace of a task, or of a message: 32 hex digits, the same for the same identifier."""
    return _digest(owner_id, "trace")[:32]


def span_id(owner_id: str, part: str) -> str:
    """The span of a part of a task, or of a message: 16 hex digits, the same for the same part."""
    return _digest(owner_id, part)[:16]


def of_message(message_id: str) -> Link:
    """The span of a message."""
    return Link(trace_id(message_id), span_id(message_id, "message"))


def of_task(task_id: str) -> Link:
    """The span of a task as a whole."""
    return Link(trace_id(task_id), span_id(task_id, "task"))


def attributes(values: Mapping[str, Value | None]) -> dict[str, Value]:
    """The values that are there, as they may be shown."""
    return {name: clean(value) for name, value in values.items() if value is not None}


def clean(value: Value) -> Value:
    """A value without secrets; a text is cut."""
    return _BOUNDS.cut(value) if isinstance(value, str) else value


def _digest(owner_id: str, part: str) -> str:
    return hashlib.sha256(f"corral {part} {owner_id}".encode()).hexdigest()
