"""The way into the web view: what is answered."""

from __future__ import annotations

from typing_extensions import TypedDict

from corral.core.answers import Instant


class Link(TypedDict):
    """A link that opens the web view once, until ``expires_at``."""

    url: str
    expires_at: Instant
