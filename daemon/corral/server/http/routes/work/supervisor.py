"""The supervisor of the roadmap over HTTP."""

from __future__ import annotations

from typing import Any

from corral.app.runtime.services import Services
from corral.server.http.routing import Routes

router = Routes("supervisor", "/supervisor")


@router.get("")
async def status(services: Services) -> dict[str, Any]:
    """Since when the roadmap is worked on, its tasks by status, the next ones, and the errors in the file."""
    return await services.work(services.roadmap.status)


@router.post("/start")
async def start(services: Services) -> dict[str, Any]:
    """Work on the roadmap from now on, through restarts; answered at once."""
    now = services.now()
    await services.work(lambda: services.roadmap.start(now))
    services.nudge("roadmap")
    return await services.work(services.roadmap.status)


@router.post("/once")
async def once(services: Services) -> dict[str, Any]:
    """Plan one round now, also while the roadmap is not worked on."""
    now = services.now()
    await services.work(lambda: services.roadmap.once(now))
    services.nudge("supervisor")
    return await services.work(services.roadmap.status)


@router.post("/stop")
async def stop(services: Services) -> dict[str, Any]:
    """Pick no further tasks of the roadmap; those that the queue has go on, and the file is told how they end."""
    was_supervised = await services.work(services.roadmap.stop)
    services.nudge("roadmap")
    return {**await services.work(services.roadmap.status), "was_supervised": was_supervised}
