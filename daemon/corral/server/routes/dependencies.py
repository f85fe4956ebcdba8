"""What every route needs: the services, taken from the application."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from corral.server.services import Services


async def _services(request: Request) -> Services:  # not async, it would be run in a thread of its own
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


Given = Annotated[Services, Depends(_services)]
