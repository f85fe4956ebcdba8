"""Long lists: a page at a time, bounded by number and by size, made into text where they are read.

No list is turned into text on the event loop, nor in one step, so that the longest page does not keep other requests waiting.
Rows that do not fit are left out; the answer says so, and how to ask for them:

* over HTTP by a ``Link`` header with ``rel="next"``; the body is the list and nothing else;
* a tool beside the list, a resource by a second content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import dropwhile, islice

from corral.core.json_text import json_bytes
from corral.core.payload import Payload

BYTES = 256 * 1024
"""Of a list in an answer over HTTP."""
SHOWN_BYTES = 32 * 1024
"""Of a list that a tool or a resource answers: some nine thousand tokens; Claude Code warns of ten thousand."""
MOST = 1000
"""Rows in one answer."""


@dataclass(frozen=True)
class Page:
    """The rows that fit, each as JSON too.

    Attributes:
        cut: Whether there were more, which did not fit.
        more: Whether there may be more.
    """

    rows: list[Payload]
    texts: list[bytes]
    cut: bool
    more: bool

    @property
    def last(self) -> Payload:
        """The last row that fits; where there are more, there is one."""
        return self.rows[-1]


def listed(texts: Iterable[bytes]) -> bytes:
    """Rows that are JSON, as a JSON list."""
    return b"[%s]" % b",".join(texts)


def page(
    rows: Iterable[Payload], most: int = MOST, *, size: int = BYTES, text: Callable[[Payload], bytes] = json_bytes
) -> Page:
    """Take as many rows as fit; one always does.

    Args:
        rows: In order; no more of them are taken than are needed.
        most: So many at most.
        size: Bytes of all of them as JSON.
        text: A row as JSON.
    """
    shown: list[Payload] = []
    texts: list[bytes] = []
    for row in islice(rows, most):
        written = text(row)
        size -= len(written)
        if shown and size < 0:
            return Page(shown, texts, True, True)
        shown.append(row)
        texts.append(written)
    return Page(shown, texts, False, len(shown) == most)


def following(rows: Iterable[Payload], key: str, after: str | None) -> Iterator[Payload]:
    """The rows behind the one whose ``key`` is this; all of them where none is named, none where it is not there."""
    return iter(rows) if after is None else islice(dropwhile(lambda row: row[key] != after, rows), 1, None)
