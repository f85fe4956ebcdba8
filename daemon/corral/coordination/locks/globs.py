r"""Path globs, and whether two of them can ever meet.

A pattern is repository-relative and anchored at the top: ``*`` and ``?`` stay within a segment, ``[abc]`` ``[a-z]``
``[!a]`` are one character of it, ``**`` as a whole segment is any number of segments, and a backslash takes the meaning
from the ``*``, ``?``, ``[``, ``]`` or backslash behind it. A pattern that matches a folder covers everything in it. A match
is a folder where it is written as one: with a ``/`` behind it, there or in the name that it is compared with. So ``src``
covers ``src/a/b.py`` and overlaps ``src/**/*.py``, but ``**/*.py`` does not overlap ``README.md``, nor ``**/*.md``. All that is
below a last ``*`` is covered too: ``src/*``, ``src/**`` and ``src/`` are the same.

Text is compared in NFC, and where the file system folds case, case-folded: then a wildcard stands for one character of the
folded text. Pure; nothing here is decided by trying out paths or by a regular expression, so no pattern is slow.
"""

from __future__ import annotations

import itertools
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from corral.core.errors import InvalidInput

MAX_CHARACTERS = 512
MAX_STARS = 16
MAX_SEGMENTS = 32

_SPECIAL = frozenset("*?[]\\")
_SPECIAL_IN_CLASS = frozenset("[]!^-\\")
_LAST = 0x10FFFF
# Code points above this one have no case (Unicode 15); scanning them all would only cost time.
_LAST_CASED = 0x1E943


@dataclass(frozen=True)
class _Chars:
    """A set of characters: sorted, disjoint, inclusive spans of code points."""

    spans: tuple[tuple[int, int], ...]

    def has(self, char: str) -> bool:
        at = bisect_right(self.spans, (ord(char), _LAST)) - 1
        return at >= 0 and self.spans[at][1] >= ord(char)

    def meets(self, other: _Chars) -> bool:
        left, right = 0, 0
        while left < len(self.spans) and right < len(other.spans):
            (low, high), (floor, ceiling) = self.spans[left], other.spans[right]
            if max(low, floor) <= min(high, ceiling):
                return True
            if high < ceiling:
                left += 1
            else:
                right += 1
        return False


# In a segment None is `*`; in a path None is `**`: any number of what the sequence is made of.
_Token = str | _Chars | None
Segment = str | tuple[_Token, ...]
_ANY = _Chars(((1, ord("/") - 1), (ord("/") + 1, _LAST)))
_ANY_SEGMENT: tuple[_Token, ...] = (None,)
_Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern.

    Attributes:
        text: The canonical spelling. Compiled again with ``fold=False``, it decides the same about normalised paths.
        segments: The segments of the path; a last None stands for what a folder covers below.
        fold: Whether paths are case-folded before they are compared.
    """

    text: str
    segments: tuple[Segment | None, ...]
    fold: bool

    @cached_property
    def beginning(self) -> tuple[Segment, ...]:
        """The segments before the first ``**``, or before the end."""
        before = itertools.takewhile(lambda segment: segment is not None, self.segments)
        return tuple(segment for segment in before if segment is not None)

    @property
    def meets_all(self) -> bool:
        """Whether it overlaps every other pattern and every path."""
        return self.segments == (_ANY_SEGMENT, None)

    @cached_property
    def _exact(self) -> tuple[Segment | None, ...]:
        """The paths it matches itself, without those below."""
        return self.segments[:-1] if self.segments[-1] is None else self.segments

    @cached_property
    def folders(self) -> tuple[tuple[Segment | None, ...], ...]:
        """The beginnings of it that are folders, since they end with a name that stands before a ``/``."""
        return tuple(self._exact[:at] for at in range(1, len(self._exact)) if isinstance(self._exact[at - 1], str))

    def matches(self, path: str) -> bool:
        """Whether the pattern covers this one repository-relative path (or a folder above it)."""
        return _meet((*self._exact, None), normalise(path, fold=self.fold).split("/"), _segments_meet)


def normalise(text: str, *, fold: bool) -> str:
    """The spelling in which text is compared: NFC, and case-folded with ``fold``."""
    composed = unicodedata.normalize("NFC", text)
    return unicodedata.normalize("NFC", composed.casefold()) if fold else composed


def is_pattern(text: str) -> bool:
    """Whether the text has a wildcard with its meaning left: an unescaped ``*``, ``?`` or closed ``[…]``."""
    return any(not isinstance(_segment(part, fold=False)[0], str) for part in text.split("/"))


@lru_cache(maxsize=4096)
def plain(path: str, *, fold: bool) -> Pattern:
    """The pattern that is exactly this path, a folder if it ends in ``/``; no character in it is special."""
    text = normalise(path, fold=fold)
    below = (None,) if text.endswith("/") else ()
    return Pattern(escape(text), (*text.removesuffix("/").split("/"), *below), fold)


def escape(path: str) -> str:
    """Write a path as the pattern that means it literally."""
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in path)


def unescape(text: str) -> str:
    """The path that a text without wildcards means; :func:`escape` undone."""
    segments = (_segment(part, fold=False)[0] for part in text.split("/"))
    return "/".join("".join(token for token in segment if isinstance(token, str)) for segment in segments)


@lru_cache(maxsize=4096)
def compile_pattern(text: str, *, fold: bool) -> Pattern:
    """Read a pattern.

    Args:
        text: At most 512 characters, 16 stars (``**`` is one) and 32 segments; empty and ``.`` segments do not count.
        fold: Whether the file system folds case.

    Raises:
        InvalidInput: Beyond a limit, empty, or with a class that no character can satisfy.
    """
    if len(text) > MAX_CHARACTERS:
        raise _refused(text, f"It has {len(text)} characters; {MAX_CHARACTERS} are allowed.")
    segments: list[Segment | None] = []
    spelled: list[str] = []
    for part in text.split("/"):
        if part in ("", ".") or (part == "**" and segments and segments[-1] is None):
            continue
        segment, spelling = (None, part) if part == "**" else _segment(unicodedata.normalize("NFC", part), fold=fold)
        segments.append(segment)
        spelled.append(spelling)
    if not segments:
        raise _refused(text, "It names nothing.")
    if any(isinstance(token, _Chars) and not token.spans for part in segments for token in part or ()):
        raise _refused(text, "A class in it holds no character.")
    if "[[:" in text:
        raise _refused(text, "Named classes such as [[:alpha:]] are not known here.")
    if segments[-1] is None:
        segments[-1], spelled[-1] = _ANY_SEGMENT, "*"
    below = segments[-1] == _ANY_SEGMENT
    if text.endswith("/") and not below:
        below, spelled[-1] = True, f"{spelled[-1]}/"
    canonical = "/".join(spelled)
    if unicodedata.normalize("NFC", canonical) != canonical:
        raise _refused(text, "A class in it holds half of a composed character.")
    stars = sum(1 if part is None else sum(token is None for token in part) for part in segments)
    for count, most, what in (
        (len(segments), MAX_SEGMENTS, "segments"),
        (stars, MAX_STARS, "stars"),
        (len(canonical), MAX_CHARACTERS, "characters once it is normalised"),
    ):
        if count > most:
            raise _refused(text, f"It has {count} {what}; {most} are allowed.")
    return Pattern(canonical, (*segments, *((None,) if below else ())), fold)


def overlaps(a: Pattern, b: Pattern) -> bool:
    """Whether both patterns cover some path. What either writes as a folder is a folder; all else is a file."""
    return (
        _meet(a.segments, b.segments, _segments_meet)
        or any(_meet(a._exact, folder, _segments_meet) for folder in b.folders)
        or any(_meet(b._exact, folder, _segments_meet) for folder in a.folders)
    )


def meets_path(pattern: Pattern, path: str) -> bool:
    """Whether the pattern overlaps a path that is normalised already (:func:`normalise`); a folder ends in ``/``."""
    return overlaps(pattern, plain(path, fold=False))


def folder(pattern: Pattern) -> str:
    """The folder that all it covers lies in: what stands before its first wildcard, normalised; empty if nothing does."""
    plain_segments = itertools.takewhile(lambda segment: isinstance(segment, str), pattern.beginning)
    return "/".join(segment for segment in plain_segments if isinstance(segment, str))


def _meet(a: Sequence[Any], b: Sequence[Any], meets: Callable[[Any, Any], bool]) -> bool:
    """Whether two sequences, None being any number of elements, have a common instance.

    The product of the two automata, one row of it at a time: bit j of ``reached`` says that what led to the present place
    in ``a`` may also have led to place j in ``b``.
    """
    loops = sum(1 << at for at, element in enumerate(b) if element is None)
    everywhere = (1 << (len(b) + 1)) - 1
    compatible: dict[Any, int] = {}
    reached = 1 | (loops & 1) << 1
    for element in a:
        if not reached:
            return False
        if element is None:
            # Here `a` takes anything, so `b` may go on to each later place.
            reached = everywhere & -(reached & -reached)
            continue
        if element not in compatible:
            compatible[element] = sum(
                1 << at for at, other in enumerate(b) if other is not None and meets(element, other)
            )
        reached = (reached & compatible[element]) << 1 | (reached & loops)
        reached |= (reached & loops) << 1
    return bool(reached >> len(b) & 1)


def _segments_meet(a: Segment, b: Segment) -> bool:
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    return _meet(a, b, _tokens_meet)


def _tokens_meet(a: str | _Chars, b: str | _Chars) -> bool:
    if isinstance(a, str):
        return a == b if isinstance(b, str) else b.has(a)
    return a.has(b) if isinstance(b, str) else a.meets(b)


def _segment(part: str, *, fold: bool) -> tuple[Segment, str]:
    """Read one segment: its tokens (a string where nothing is wild), and their canonical spelling."""
    tokens: list[_Token] = []
    spelling: list[str] = []
    literal: list[str] = []

    def flush() -> None:
        run = normalise("".join(literal), fold=fold)
        tokens.extend(run)
        spelling.append(escape(run))
        literal.clear()

    at = 0
    while at < len(part):
        char = part[at]
        wild: tuple[_Token, str, int] | None = None
        if char == "*":
            end = at + len(part[at:]) - len(part[at:].lstrip("*"))
            wild = (None, "*", end)
        elif char == "?":
            wild = (_ANY, "?", at + 1)
        elif char == "[":
            wild = _class(part, at, fold=fold)
        if wild is None:
            at += char == "\\" and part[at + 1 : at + 2] in _SPECIAL
            literal.append(part[at])
            at += 1
        else:
            flush()
            tokens.append(wild[0])
            spelling.append(wild[1])
            at = wild[2]
    if not spelling:
        text = normalise("".join(literal), fold=fold)
        return text, escape(text)
    flush()
    return tuple(tokens), "".join(spelling)


def _class(part: str, opening: int, *, fold: bool) -> tuple[_Chars, str, int] | None:
    """Read ``[…]``: the set, its canonical spelling and the place behind it; None if it is never closed."""
    negated = part[opening + 1 : opening + 2] in ("!", "^")
    first = at = opening + 1 + negated
    members: _Spans = []
    while at < len(part) and (part[at] != "]" or at == first):
        low, at = _member(part, at)
        high = low
        if part[at : at + 1] == "-" and part[at + 1 : at + 2] not in ("]", ""):
            high, at = _member(part, at + 1)
        members.append((low, high))
    if at >= len(part):
        return None
    spans = _united(members + (_folds(members) if fold else []))
    body = "".join(_spelled(low) if low == high else f"{_spelled(low)}-{_spelled(high)}" for low, high in spans)
    possible = _complement(spans) if negated else spans
    chars = [
        (max(low, a), min(high, b)) for low, high in possible for a, b in _ANY.spans if max(low, a) <= min(high, b)
    ]
    return _Chars(tuple(chars)), f"[{'!' * negated}{body}]", at + 1


def _member(part: str, at: int) -> tuple[int, int]:
    at += part[at] == "\\" and part[at + 1 : at + 2] in _SPECIAL_IN_CLASS
    return ord(part[at]), at + 1


def _spelled(point: int) -> str:
    return f"\\{chr(point)}" if chr(point) in _SPECIAL_IN_CLASS else chr(point)


def _united(spans: _Spans) -> _Spans:
    united: _Spans = []
    for low, high in sorted(span for span in spans if span[0] <= span[1]):
        if united and low <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(high, united[-1][1]))
        else:
            united.append((low, high))
    return united


def _complement(spans: _Spans) -> _Spans:
    starts = [0, *(high + 1 for _, high in spans)]
    ends = [*(low - 1 for low, _ in spans), _LAST]
    return [(low, high) for low, high in zip(starts, ends, strict=True) if low <= high]


@lru_cache(maxsize=1)
def _cased() -> tuple[int, ...]:
    return tuple(point for point in range(_LAST_CASED + 1) if chr(point).casefold() != chr(point))


def _folds(spans: _Spans) -> _Spans:
    """The folded characters of the spans, where folding gives one character."""
    cased = _cased()
    folded = [
        chr(point).casefold()
        for low, high in spans
        for point in cased[bisect_left(cased, low) : bisect_right(cased, high)]
    ]
    return [(ord(char), ord(char)) for char in set(folded) if len(char) == 1]


def _refused(text: str, cause: str) -> InvalidInput:
    return InvalidInput(
        f"{text[:80]!r} is not a usable pattern.",
        cause=cause,
        remedy="Name a folder instead, or use a simpler pattern such as `src/**/*.py`.",
    )
