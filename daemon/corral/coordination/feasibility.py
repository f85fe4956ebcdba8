"""Whether two lines of work can go side by side, judged by what they claim. One judgement, for features and for tasks.

* ``FULL``: no claim of one overlaps with a claim of the other. Side by side.
* ``PARTIAL``: some do. Side by side if need be: they will meet at the merge, where most meetings are clean.
* ``SEQUENTIAL``: one after the other. So it is where

  - more than half of what one of the two claims is contended: they are about the same thing, and whoever comes second would
    build on what is about to change (half is the limit that users of such registries know; with equal keys it is half of
    the smaller set); or
  - a ``db:`` or ``contract:`` key, or a feature's pause (``feature:ID:pause``), is contended: of these there is one at a
    time, and two changes of it merge without a conflict and are wrong together.

Against several others it is as grave as against the gravest of them, and ``SEQUENTIAL`` too where they together contend more
than half of the claims. Overlap is that of locks: equal, a folder above, a glob that meets (:mod:`corral.coordination.keys`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from corral.coordination.keys import LockKey, keys_overlap

Pair = tuple[LockKey, LockKey]

_ONE_AT_A_TIME = re.compile(r"(db|contract):|feature:.*:pause$", re.DOTALL)


class Feasibility(str, Enum):
    """How well two lines of work go side by side; a later one is graver."""

    FULL = "FULL"
    PARTIAL = "PARTIAL"
    SEQUENTIAL = "SEQUENTIAL"


@dataclass(frozen=True)
class Meeting:
    """What overlaps with one other: pairs of my key and theirs, never none."""

    feasibility: Feasibility
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Judgement:
    """How one line of work goes beside several others.

    Attributes:
        meetings: By the other's name; those that nothing overlaps with are left out.
        contended: How many of the claims overlap with anybody's.
    """

    feasibility: Feasibility
    meetings: Mapping[str, Meeting] = field(default_factory=dict)
    contended: int = 0


_CLEAR = Judgement(Feasibility.FULL)


class Ground:
    """What others claim; many candidates can be judged against it, and each key is compared with them once.

    Args:
        others: The keys of each, by its name. All keys must have been made with the same ``fold``.
    """

    def __init__(self, others: Mapping[str, Sequence[LockKey]]) -> None:
        self._sizes = {name: len(set(keys)) for name, keys in others.items()}
        self._taken = [(name, key) for name, keys in others.items() for key in dict.fromkeys(keys)]
        self._known: dict[LockKey, list[tuple[str, LockKey]]] = {}

    def judge(self, claims: Sequence[LockKey]) -> Judgement:
        """Judge one line of work by its claims."""
        mine = tuple(dict.fromkeys(claims))
        met: dict[str, list[Pair]] = {}
        for key in mine:
            for name, theirs in self._hits(key):
                met.setdefault(name, []).append((key, theirs))
        if not met:
            return _CLEAR
        meetings = {
            name: Meeting(_weigh(pairs, len(mine), self._sizes[name]), tuple(pairs)) for name, pairs in met.items()
        }
        contended = len({key for pairs in met.values() for key, _ in pairs})
        grave = 2 * contended > len(mine) or any(m.feasibility is Feasibility.SEQUENTIAL for m in meetings.values())
        return Judgement(Feasibility.SEQUENTIAL if grave else Feasibility.PARTIAL, meetings, contended)

    def _hits(self, key: LockKey) -> list[tuple[str, LockKey]]:
        if key not in self._known:
            self._known[key] = [(name, theirs) for name, theirs in self._taken if keys_overlap(key, theirs)]
        return self._known[key]


def _weigh(pairs: Sequence[Pair], mine: int, theirs: int) -> Feasibility:
    sole = any(_ONE_AT_A_TIME.match(key.match_key) for pair in pairs for key in pair)
    most = 2 * len({key for key, _ in pairs}) > mine or 2 * len({key for _, key in pairs}) > theirs
    return Feasibility.SEQUENTIAL if sole or most else Feasibility.PARTIAL
