"""The needs of a person, and lasting failures that are shown as such."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from corral.core.instants import iso

MOST_OF_A_KIND = 20
"""Entries of one source in a view; the last one counts the others."""


@dataclass(frozen=True)
class Need:
    """One thing that waits for a person.

    Attributes:
        kind: Stable, one word or two: ``held_merge``, ``unguarded_session``, ….
        what: What happened, to which thing, and why; one line.
        remedy: What to type, or to do.
        since: Instant, or None where it is not known.
        ids: The rows that it is about: ``{"merge_id": …}``.
    """

    kind: str
    what: str
    remedy: str
    since: str | None = None
    ids: dict[str, str] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """The need as every face gets it."""
        return {"kind": self.kind, "what": self.what, "since": self.since, "remedy": self.remedy, "ids": self.ids}


@dataclass(frozen=True)
class Fault:
    """A lasting failure: shown among the needs of a person from its first occurrence until it is over.

    Attributes:
        faults: Where it is shown.
        name: Its place there.
        kind: Of the need.
    """

    faults: dict[str, Need]
    name: str
    kind: str

    def show(self, what: str, remedy: str, now: datetime) -> bool:
        """Show it with its current reason; returns whether it, or its reason, is new."""
        before = self.faults.get(self.name)
        since = before.since if before is not None else iso(now)
        self.faults[self.name] = Need(self.kind, what, remedy, since)
        return before is None or before.what != what

    def end(self) -> bool:
        """Stop showing it; returns whether it was shown."""
        return self.faults.pop(self.name, None) is not None
