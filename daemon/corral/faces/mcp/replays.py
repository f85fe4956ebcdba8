"""Answers by the key that a client gave its call, so that a call that is made twice is done once.

Memory only: what a restart forgets is done again, and a reservation that is made again is the same one.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any

from corral.core.errors import IdempotencyKeyConflict

KEPT = timedelta(hours=24)
MOST = 4096
"""Answers that are kept; the oldest are forgotten first."""


class Replays:
    """Recent answers by session and key. Used in the event loop only."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], tuple[Any, datetime, dict[str, Any]]] = OrderedDict()

    def find(self, session_id: str, key: str, arguments: Any, now: datetime) -> dict[str, Any] | None:
        """The answer that this session got for this key within a day.

        Args:
            arguments: The request, comparable.

        Raises:
            IdempotencyKeyConflict: The key was used with other arguments.
        """
        before, at, answer = self._answers.get((session_id, key), (None, now - KEPT, None))
        if answer is None or at <= now - KEPT:
            return None
        if before != arguments:
            raise IdempotencyKeyConflict(f"The key {key[:80]!r} was used for another reservation.")
        return answer

    def keep(self, session_id: str, key: str, arguments: Any, answer: dict[str, Any], now: datetime) -> None:
        """Remember an answer."""
        self._answers[(session_id, key)] = (arguments, now, answer)
        while len(self._answers) > MOST:
            self._answers.popitem(last=False)
