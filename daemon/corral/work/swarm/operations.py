"""The swarm over HTTP."""

from __future__ import annotations

from corral.coordination.services import Services
from corral.core.routing import EVERYONE, MACHINE, Routes
from corral.work.swarm import swarm
from corral.work.swarm.api import Swarm, Terminating

router = Routes("swarm", "/swarm", scope=MACHINE, callers=EVERYONE)


@router.get("")
async def status(services: Services) -> Swarm:
    """The running agents, their use together (``limits``), and the limits that hold tasks back."""
    return await services.store.read(swarm.status, services)


@router.post("/agents/{agent_id}/kill")
async def kill(services: Services, agent_id: str) -> Terminating:
    """Stop the worker of an agent, named by its id or by its task; the task is tried again, as after any failure."""
    return await swarm.kill(services, agent_id)
