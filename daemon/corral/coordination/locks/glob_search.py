"""Which of many paths a glob may overlap, found in one text of all of them; the exact answer is that of ``globs``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

from corral.coordination.locks.globs import Pattern, Segment


def finder(pattern: Pattern, opening: str = "") -> re.Pattern[str]:
    """An expression for normalised paths with a NUL before and behind each: finds all that :func:`.globs.meets_path` may accept.

    Its group 1 is the path found: any that begins as the pattern does, up to its first ``**``, or would if it was a folder. A
    class is any character: to a regular expression, they cost milliseconds each. A star never gives back characters, so that
    no pattern takes long.

    Args:
        opening: An expression for what stands before the path itself.
    """
    names = (f"star{number}" for number in itertools.count())
    *above, last = [_expression(segment, names) for segment in pattern.beginning] or ["[^/\\0]+"]
    body = f"{last}(?=[/\\0])[^\\0]*"
    for expression in reversed(above):
        body = f"{expression}(?:/{body}|(?=\\0))"
    return re.compile(f"\\0({opening}{body})")


def needed(pattern: Pattern) -> tuple[int, str]:
    """The longest text that a path of so many segments must contain to be met; empty if there is none."""
    runs = ((number, run) for number, segment in enumerate(pattern.beginning, 1) for run in _literals(segment))
    return max(runs, key=lambda run: len(run[1]), default=(0, ""))


def _literals(segment: Segment) -> list[str]:
    return "".join(token if isinstance(token, str) else "\0" for token in segment).split("\0")


def _expression(segment: Segment, names: Iterator[str]) -> str:
    """A segment as a regular expression that finds one way to match, the first, and tries no other."""
    if isinstance(segment, str):
        return re.escape(segment)
    chunks = [""]
    for token in segment:
        if token is None:
            chunks.append("")
        else:
            chunks[-1] += re.escape(token) if isinstance(token, str) else "[^/\\0]"
    first, *middle = chunks
    last = middle.pop() if middle else None
    # A group within a look-ahead is not tried another way: what it found first is where the next chunk begins.
    groups = [_once(f"[^/\\0]*?{chunk}", names) for chunk in middle]
    ending = [] if last is None else [f"[^/\\0]*{last}" if last else _once("[^/\\0]*", names)]
    return "".join((first, *groups, *ending))


def _once(expression: str, names: Iterator[str]) -> str:
    """The same, and what it took is not given back: most paths of most repositories fail here, and a second way costs as much."""
    name = next(names)
    return f"(?=(?P<{name}>{expression}))(?P={name})"


def may_meet(pattern: Pattern) -> Callable[[str], bool]:
    """A cheap test of many files: what fails it, :func:`.globs.meets_path` does not accept. A folder always passes."""
    runs = (run for segment in pattern.segments if segment is not None for run in _literals(segment))
    longest = max(runs, key=len, default="")
    names = {str(folder[-1]) for folder in pattern.folders}
    return lambda path: longest in path or path.rpartition("/")[2] in names
