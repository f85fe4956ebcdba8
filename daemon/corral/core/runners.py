"""What the runners are like, by name. How each starts a process stands in its module (:mod:`corral.runners.registry`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.core.states import RunnerName


@dataclass(frozen=True)
class Traits:
    """What the rest of the package knows of a runner.

    Attributes:
        is_model: Its workers ask a model, by a prompt: only they are held by limits of requests, tokens and cost.
        streams: :func:`corral.runners.stream.readable` reads its output.
        keeps_conversation: The next iteration of a loop can go on in the conversation of the one before.
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
"""Of a runner that a stored row names and this version does not know."""


def traits(name: str | None) -> Traits:
    """What a runner is like; that of no name, and of one that is not known, is like nothing else."""
    return TRAITS.get(name or "", UNKNOWN)
