"""One thing that waits for a person."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
        """It as every face gets it."""
        return {"kind": self.kind, "what": self.what, "since": self.since, "remedy": self.remedy, "ids": self.ids}
