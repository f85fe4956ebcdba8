"""The way into the web view, over HTTP: for a person, who opens the link in a browser."""

from __future__ import annotations

from corral.coordination.services import Services
from corral.core.routing import MACHINE, PERSON, Routes
from corral.faces.web.api import Link
from corral.faces.web.listening import WebView

router = Routes("web", "/web", scope=MACHINE, callers=PERSON)


@router.post("/links", status=201)
async def link(services: Services) -> Link:
    """Make a link to the web view, and serve that on a loopback port from now on: it acts as the person."""
    return await services.of(WebView).open()
