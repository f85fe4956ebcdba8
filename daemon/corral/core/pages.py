"""Long lists: a page at a time, bounded by number and by size, encoded by the thread that reads the rows.

No list is encoded on the event loop, nor in one step, so that the longest page does not keep other requests waiting.
Rows that do not fit are left out; the answer says so, and how to request them:

* over HTTP by a ``Link`` header with ``rel="next"``; the body is the list and nothing else;
* a tool beside the list, a resource by a second content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile, islice
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from corral.core.asgi import json_bytes
from corral.core.payload import Payload

BYTES = 256 * 1024
"""Maximum size of a list in an HTTP answer, bytes."""
SHOWN_BYTES = 32 * 1024
"""Maximum size of a list in the answer of a tool or resource: about nine thousand tokens; Claude Code warns of ten thousand."""
MOST = 1000
"""Maximum number of rows in one answer."""


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
        most: Maximum number of rows.
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
    """The rows after the one whose ``key`` is ``after``; all rows if that is None, none if there is no such row."""
    return iter(rows) if after is None else islice(dropwhile(lambda row: row[key] != after, rows), 1, None)


# -- A page of a long list as an answer over HTTP


def answer(
    request: Request, page: Page, position: Callable[[Payload], Mapping[str, Any]], *, backwards: bool = False
) -> Response:
    """The HTTP answer with a page.

    Args:
        position: The query parameters that request the rows after a row.
        backwards: Whether to list the rows in reverse order.
    """
    headers = {}
    if page.more:
        following = {name: quote(str(value)) for name, value in position(page.last).items()}
        query = quote(request.scope["query_string"], safe="%&=+;:,/?@!$'()*[]")
        others = [part for part in query.split("&") if part and unquote(part.partition("=")[0]) not in following]
        next_position = [f"{name}={value}" for name, value in following.items()]
        headers["Link"] = f'<{quote(request.scope["path"])}?{"&".join([*others, *next_position])}>; rel="next"'
    return Response(listed(page.texts[:: -1 if backwards else 1]), media_type="application/json", headers=headers)


def named(name: str, page: Page) -> Response:
    """The HTTP answer with a page under a name: ``left_out`` says that not everything fits."""
    more = b',"left_out":true' if page.cut else b""
    return Response(b'{"%s":%s%s}' % (name.encode(), listed(page.texts), more), media_type="application/json")
