"""What every route needs: the services, taken from the application."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from corral.server.services import Services


def _services(request: Request) -> Services:
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


Given = Annotated[Services, Depends(_services)]
