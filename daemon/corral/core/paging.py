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
    request: Request, found: Page, position: Callable[[Payload], Mapping[str, Any]], *, backwards: bool = False
) -> Response:
    """A page as it is answered over HTTP.

    Args:
        position: The query parameters that ask for what comes after a row.
        backwards: The last row is told first; what comes after it, before it.
    """
    headers = {}
    if found.more:
        following = {name: quote(str(value)) for name, value in position(found.last).items()}
        query = quote(request.scope["query_string"], safe="%&=+;:,/?@!$'()*[]")
        asked = [said for said in query.split("&") if said and unquote(said.partition("=")[0]) not in following]
        behind = [f"{name}={value}" for name, value in following.items()]
        headers["Link"] = f'<{quote(request.scope["path"])}?{"&".join([*asked, *behind])}>; rel="next"'
    return Response(listed(found.texts[:: -1 if backwards else 1]), media_type="application/json", headers=headers)


def named(name: str, found: Page) -> Response:
    """A page under a name, as it is answered over HTTP: ``left_out`` says that not everything fits."""
    more = b',"left_out":true' if found.cut else b""
    return Response(b'{"%s":%s%s}' % (name.encode(), listed(found.texts), more), media_type="application/json")
