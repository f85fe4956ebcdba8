"""Whether two lines of work can go side by side, judged by what they claim. One judgement, for features and for tasks.

* ``FULL``: no claim of one overlaps with a claim of the other. Side by side.
* ``PARTIAL``: some do. Side by side if need be: they will meet at the merge, where most meetings are clean.
* ``SEQUENTIAL``: one after the other. So it is where

  - more than half of what one of the two claims is contended: they are about the same thing, and the second would
    build on what is about to change (half is the limit that users of such registries know; with equal keys it is half of
    the smaller set); or
  - a ``db:`` or ``contract:`` key, or a feature's pause (``feature:ID:pause``), is contended: of these there is one at a
    time, and two changes of it merge without a conflict and are wrong together.

Against several others it is as grave as against the gravest of them, and ``SEQUENTIAL`` too where they together contend more
than half of the claims. Overlap is that of locks: equal, a folder above, a glob that meets
(:mod:`corral.coordination.locks.keys`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from corral.coordination.locks.keys import LockKey, keys_overlap

Pair = tuple[LockKey, LockKey]
_Taken = tuple[str, LockKey]

_WILD = re.compile(r"[*?\[\\]")
_ONE_AT_A_TIME = re.compile(r"(db|contract):|feature:.*:pause$", re.DOTALL)


class Feasibility(str, Enum):
    """How well two lines of work go side by side; a later one is graver."""

    FULL = "FULL"
    PARTIAL = "PARTIAL"
    SEQUENTIAL = "SEQUENTIAL"


@dataclass(frozen=True)
class Meeting:
    """The overlap with one other: pairs of my key and theirs, at least one."""

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


class ClaimIndex:
    """The claims of others; many candidates can be judged against them, and each key is compared with them once.

    Args:
        others: The keys of each, by its name. All keys must have been made with the same ``fold``.
    """

    def __init__(self, others: Mapping[str, Sequence[LockKey]]) -> None:
        self._sizes: dict[str, int] = {}
        self._at: dict[str, list[_Taken]] = {}
        self._within: dict[str, list[_Taken]] = {}
        self._known: dict[LockKey, list[_Taken]] = {}
        for name, keys in others.items():
            self.add(name, keys)

    def add(self, name: str, keys: Sequence[LockKey]) -> None:
        """Add the claims of another line of work, which must be new."""
        unique = dict.fromkeys(keys)
        self._sizes[name] = len(unique)
        self._known.clear()
        for key in unique:
            place = _fixed_part(key.match_key)
            self._at.setdefault(place, []).append((name, key))
            for folder in (place, *_above(place)):
                self._within.setdefault(folder, []).append((name, key))

    def is_near(self, spelling: str) -> bool:
        """Whether anything could overlap with a key of this shown form; far cheaper than to parse and judge the key."""
        place = _fixed_part(spelling)
        return place in self._within or any(above in self._at for above in _above(place))

    def judge(self, claims: Sequence[LockKey], *, of: int = 0, without: Collection[str] = ()) -> Judgement:
        """Judge one line of work by its claims.

        Args:
            of: How many it has, where those that nothing is near of were left out.
            without: Those that it goes beside whatever they claim.
        """
        keys = tuple(dict.fromkeys(claims))
        pairs_by_name: dict[str, list[Pair]] = {}
        for key in keys:
            for name, theirs in self._hits(key):
                if name not in without:
                    pairs_by_name.setdefault(name, []).append((key, theirs))
        if not pairs_by_name:
            return _CLEAR
        size = max(of, len(keys))
        meetings = {
            name: Meeting(_weigh(pairs, size, self._sizes[name]), tuple(pairs)) for name, pairs in pairs_by_name.items()
        }
        contended = len({key for pairs in pairs_by_name.values() for key, _ in pairs})
        grave = 2 * contended > size or any(m.feasibility is Feasibility.SEQUENTIAL for m in meetings.values())
        return Judgement(Feasibility.SEQUENTIAL if grave else Feasibility.PARTIAL, meetings, contended)

    def _hits(self, key: LockKey) -> list[_Taken]:
        if key not in self._known:
            place = _fixed_part(key.match_key)
            # Two keys can only meet where the fixed part of one is, or is above, that of the other.
            candidates = [
                *self._within.get(place, ()),
                *(claim for above in _above(place) for claim in self._at.get(above, ())),
            ]
            self._known[key] = [claim for claim in candidates if keys_overlap(key, claim[1])]
        return self._known[key]


def _weigh(pairs: Sequence[Pair], size: int, other_size: int) -> Feasibility:
    sole = any(_ONE_AT_A_TIME.match(key.match_key) for pair in pairs for key in pair)
    most = 2 * len({key for key, _ in pairs}) > size or 2 * len({key for _, key in pairs}) > other_size
    return Feasibility.SEQUENTIAL if sole or most else Feasibility.PARTIAL


def _fixed_part(spelling: str) -> str:
    """The beginning of a key before its first wildcard, in whole segments; all that it covers is there, or below."""
    wild = _WILD.search(spelling)
    fixed = spelling[: spelling.rfind("/", 0, wild.start()) + 1] if wild else spelling
    return fixed.removeprefix("./").removesuffix("/")


def _above(place: str) -> list[str]:
    """The folders above a place, the top of the repository first."""
    return ["", *(place[:at] for at, char in enumerate(place) if char == "/")] if place else []
