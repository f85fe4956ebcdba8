"""The traits of the runners, by name; their modules start processes (:mod:`corral.runners.registry`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.core.states import RunnerName


@dataclass(frozen=True)
class Traits:
    """What the rest of the package knows of a runner.

    Attributes:
        is_model: Its workers prompt a model: limits of requests, tokens and cost apply only to them.
        streams: :func:`corral.runners.stream.readable` reads its output.
        keeps_conversation: The next iteration of a loop can resume the previous one's conversation.
        first_mb: Memory expected of a worker before any of this runner has ended, MiB.
    """

    is_model: bool = False
    streams: bool = False
    keeps_conversation: bool = False
    first_mb: float = 10.0


TRAITS: Mapping[str, Traits] = {
    RunnerName.COMMAND: Traits(),
    RunnerName.CLAUDE: Traits(is_model=True, streams=True, keeps_conversation=True, first_mb=400.0),
    RunnerName.ANTHROPIC: Traits(is_model=True, streams=True, keeps_conversation=True, first_mb=80.0),
}
UNKNOWN = Traits()
"""The traits of a runner that a stored row names and this version does not know."""


def traits(name: str | None) -> Traits:
    """The traits of a runner; :data:`UNKNOWN` for None and for an unknown name."""
    return TRAITS.get(name or "", UNKNOWN)
