"""The way into the web view, over HTTP: for a person, who opens the link in a browser."""

from __future__ import annotations

from starlette.requests import Request

from corral.coordination.own_work import own_work
from corral.coordination.services import Services
from corral.core.errors import NotPermitted
from corral.core.routing import Routes
from corral.faces.web.api import Link
from corral.faces.web.listening import WebView

router = Routes("web", "/web")


@router.post("/links", status_code=201)
async def link(services: Services, request: Request) -> Link:
    """Make a link to the web view, and serve that on a loopback port from now on.

    A request from a task or verification of this daemon is refused: the view acts as the person.
    """
    if who := await services.work(lambda: own_work(services.project, request)):
        raise NotPermitted(
            f"{who} may not open the web view.",
            cause="The web view acts as a person.",
            remedy="In a terminal of your own: corral web",
        )
    return await services.of(WebView).open()
