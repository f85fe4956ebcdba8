"""The supervisor of the roadmap over HTTP."""

from __future__ import annotations

from corral.coordination.services import Services
from corral.core.routing import EVERYONE, PROJECT, Routes
from corral.work.roadmap.api import Supervision, SupervisionStopped
from corral.work.roadmap.supervision import RoadmapSupervision

router = Routes("supervisor", "/supervisor", scope=PROJECT, callers=EVERYONE)


@router.get("")
async def status(services: Services) -> Supervision:
    """Since when the roadmap is worked on, its tasks by status, the next ones, and the errors in the file."""
    return await services.work(services.of(RoadmapSupervision).status)


@router.post("/start")
async def start(services: Services) -> Supervision:
    """Work on the roadmap from now on, through restarts; answered at once."""
    now = services.now()
    await services.work(lambda: services.of(RoadmapSupervision).start(now))
    services.nudge("roadmap")
    return await services.work(services.of(RoadmapSupervision).status)


@router.post("/once")
async def once(services: Services) -> Supervision:
    """Plan one round now, also while the roadmap is not worked on."""
    now = services.now()
    await services.work(lambda: services.of(RoadmapSupervision).once(now))
    services.nudge("supervisor")
    return await services.work(services.of(RoadmapSupervision).status)


@router.post("/stop")
async def stop(services: Services) -> SupervisionStopped:
    """Pick no further tasks of the roadmap; those that the queue has go on, and the file is told how they end."""
    was_supervised = await services.work(services.of(RoadmapSupervision).stop)
    services.nudge("roadmap")
    stands = await services.work(services.of(RoadmapSupervision).status)
    return {**stands, "was_supervised": was_supervised}
