"""The pause of all work: what is answered."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from corral.core.answers import Instant


class Paused(TypedDict):
    """Nothing is claimed or landed, since then."""

    paused: Literal[True]
    reason: str | None
    since_at: Instant


class Resumed(TypedDict):
    """Tasks are claimed and merge requests land; ``was_paused``: they did not before."""

    paused: Literal[False]
    was_paused: bool
