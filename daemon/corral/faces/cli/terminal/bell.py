"""The bell of a terminal that shows the view: it rings for what needs a person and did not before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RING = "\a"


class Bell:
    """Remembers what needed a person at the last look."""

    def __init__(self) -> None:
        self._known: set[str] | None = None
        self._number = 0

    def rings(self, view: Mapping[str, Any]) -> bool:
        """Whether to ring for this view: it has a need that the one before had not, and the settings want the bell now."""
        known, number = self._known, self._number
        self._known = {
            f"{need['kind']} {sorted(need['ids'].items()) or need['what']}"
            for need in view["needs_you"]
            if need["number"] == 1
        }
        self._number = view["needs_you_number"]
        is_news = known is not None and (not self._known <= known or self._number > number)
        return is_news and bool(view["bell"])
