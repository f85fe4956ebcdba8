"""A page of a long list as an answer over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from corral.core.pages import Page, listed
from corral.core.payload import Payload


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
