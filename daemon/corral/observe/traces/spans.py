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
from corral.core.events import MERGE_ENDS, EventKind, payload
from corral.store.rows.records import EventRow

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


# -- Which parts of a task's life end with an event: a pure function of the task's events up to it.
#
# The parts are its waits, its attempts, the ways of its merge requests, and its life as a whole: from the submission
# to the event after which nothing more is expected. A task that goes on after that (it is retried, or its merge
# request is) lives again: that is a part of its own, since a span that was sent never changes.

WAIT, ATTEMPT, LANDING, TASK = "wait", "attempt", "landing", "task"
MOST_MARKS = 50
"""Events that one part carries as marks."""

_GIVEN_BACK = (EventKind.TASK_INTERRUPTED, EventKind.TASK_RETRIED, EventKind.TASK_REQUEUED)
_FINAL = (EventKind.TASK_FAILED, EventKind.TASK_DEAD, EventKind.TASK_CANCELLED)
_AGAIN = (EventKind.TASK_RETRY_REQUESTED, EventKind.TASK_REVIVED)
_LANDING_REQUESTED = (EventKind.MERGE_QUEUED, EventKind.MERGE_RETRIED)
_MERGE_ENDS = tuple(MERGE_ENDS.values())
ENDINGS = frozenset({EventKind.TASK_CLAIMED, EventKind.TASK_COMPLETED, *_GIVEN_BACK, *_FINAL, *_MERGE_ENDS})
"""The kinds of events with which a part can end."""


@dataclass(frozen=True)
class Part:
    """A part that has ended.

    Attributes:
        kind: :data:`WAIT`, :data:`ATTEMPT`, :data:`LANDING` or :data:`TASK`.
        began_at: None where no event tells.
        end: The event with which it ended.
        life: The event with which the task's life began again; None: it is its first.
        number: Of the attempt, also of the one that was waited for; None where there is none.
        marks: What happened within it.
    """

    kind: str
    began_at: str | None
    end: EventRow
    life: int | None
    number: int | None = None
    marks: tuple[EventRow, ...] = ()


@dataclass
class _Open:
    began_at: str | None
    number: int | None = None
    marks: list[EventRow] = field(default_factory=list)


class Lifetime:
    """A task's state as its events tell it; they are to be fed in their order, from the first that is kept."""

    def __init__(self) -> None:
        self._life: int | None = None
        self._whole = _Open(None)
        self._wait: _Open | None = None
        self._attempt: _Open | None = None
        self._landings: dict[str, _Open] = {}
        self._landed: set[str] = set()
        self._is_done = self._is_over = self._awaits_merge = False

    def feed(self, event: EventRow) -> list[Part]:
        """The parts that end with this event, the smallest first."""
        kind = event["kind"]
        if kind == EventKind.TASK_SUBMITTED:
            self._whole.began_at = event["at"]
            self._wait = _Open(event["at"])
        elif kind in _AGAIN:
            self._reopen(event)
            self._wait, self._is_done, self._awaits_merge = _Open(event["at"]), False, False
        elif kind in _LANDING_REQUESTED:
            self._landing_requested(event)
        elif kind == EventKind.TASK_CLAIMED:
            return self._claimed(event)
        elif kind in _MERGE_ENDS:
            return self._merge_ended(event)
        elif kind in ENDINGS:
            return self._ended(event)
        else:
            self._mark(event)
        return []

    def _claimed(self, event: EventRow) -> list[Part]:
        claimed = payload(event, EventKind.TASK_CLAIMED)
        number = claimed["token"] if claimed is not None else None
        self._reopen(event)
        wait = self._wait or _Open(event["at"])
        wait.number = number
        self._wait, self._attempt = None, _Open(event["at"], number)
        return [self._part(WAIT, wait, event)]

    def _ended(self, event: EventRow) -> list[Part]:
        kind, parts = event["kind"], []
        if self._attempt is not None:
            parts.append(self._part(ATTEMPT, self._attempt, event))
        elif self._wait is not None and not self._is_over:
            parts.append(self._part(WAIT, self._wait, event))
        self._attempt = None
        self._wait = _Open(event["at"]) if kind in _GIVEN_BACK else None
        if kind in _FINAL:
            return [*parts, *self._close(event)]
        if (completed := payload(event, EventKind.TASK_COMPLETED)) is not None:
            self._is_done, self._awaits_merge = True, completed["head_sha"] is not None
            return [*parts, *self._close_if_settled(event)]
        return parts

    def _landing_requested(self, event: EventRow) -> None:
        merge_id = event["merge_id"] or ""
        if merge_id in self._landings:
            self._mark(event)  # a held request goes on
            return
        self._reopen(event)
        self._landings[merge_id], self._awaits_merge = _Open(event["at"]), False
        self._landed.discard(merge_id)

    def _merge_ended(self, event: EventRow) -> list[Part]:
        merge_id = event["merge_id"] or ""
        if merge_id in self._landed:
            return []  # it had ended before
        self._landed.add(merge_id)
        parts = [self._part(LANDING, self._landings.pop(merge_id, _Open(None)), event)]
        self._awaits_merge = event["kind"] == EventKind.MERGE_SUPERSEDED  # by one that is queued next
        return [*parts, *self._close_if_settled(event)]

    def _close_if_settled(self, event: EventRow) -> list[Part]:
        is_settled = self._is_done and not self._landings and not self._awaits_merge
        return self._close(event) if is_settled else []

    def _close(self, event: EventRow) -> list[Part]:
        if self._is_over:
            return []
        self._is_over = True
        return [self._part(TASK, self._whole, event)]

    def _reopen(self, event: EventRow) -> None:
        if self._is_over:
            self._is_over, self._life, self._whole = False, event["event_id"], _Open(event["at"])

    def _mark(self, event: EventRow) -> None:
        """Add an event to the part that it belongs to."""
        landing = self._landings.get(event["merge_id"] or "")
        part = landing or self._attempt or self._wait
        if part is not None and not self._is_over and len(part.marks) < MOST_MARKS:
            part.marks.append(event)

    def _part(self, kind: str, part: _Open, event: EventRow) -> Part:
        return Part(kind, part.began_at, event, self._life, part.number, tuple(part.marks))
