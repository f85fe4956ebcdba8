"""Loops over HTTP. One is started by submitting a task with ``loop``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from corral.coordination.services import Services
from corral.core.errors import Conflict
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, PROJECT, Routes
from corral.work.loops import views as loops
from corral.work.loops.api import (
    MOST_ITERATION,
    ChosenIteration,
    Iteration,
    Loop,
    LoopDetail,
    LoopDiff,
    LoopStop,
    NewLimits,
)
from corral.work.merges.api import WithPatch
from corral.work.merges.diffs import MOST_SHOWN
from corral.work.merges.wire import Submitted

router = Routes("loops", "/loops", scope=PROJECT, callers=EVERYONE)


@router.get("", answer=list[Loop])
async def listing(services: Services) -> list[Payload]:
    """The loops, the newest first."""
    return await services.store.read(loops.listing, services)


@router.get("/{loop_id}", answer=LoopDetail)
async def status(services: Services, loop_id: str) -> Payload:
    """Where a loop stands, named by its task."""
    return await services.store.read(loops.status, services, loop_id)


@router.get("/{loop_id}/history", answer=list[Iteration])
async def history(services: Services, loop_id: str) -> list[Payload]:
    """The completed iterations, each with its result and its evaluation."""
    return await services.store.read(loops.history, loop_id)


@router.get("/{loop_id}/diff", answer=LoopDiff)
async def diff(
    services: Services,
    loop_id: str,
    before: Annotated[
        int | None,
        Field(
            ge=0, le=MOST_ITERATION, description="Iteration to compare with (default: the one before; 0: the start)."
        ),
    ] = None,
    after: Annotated[
        int | None, Field(ge=1, le=MOST_ITERATION, description="Iteration to show (default: the last one).")
    ] = None,
    patch: WithPatch = True,
) -> Payload:
    """The changes between two iterations; by default those of the last one."""
    most = MOST_SHOWN if patch else None
    return await services.work(lambda: loops.diff(services, loop_id, before, after, most))


@router.post("/{loop_id}/stop", answer=LoopDetail, errors=(Conflict,))
async def stop(services: Services, loop_id: str, why: LoopStop | None = None) -> Payload:
    """Stop a loop; what its iterations made stays, and it can be resumed."""
    return await loops.stop(services, loop_id, (why or LoopStop()).reason)


@router.post("/{loop_id}/resume", answer=LoopDetail, errors=(Conflict,))
async def resume(services: Services, loop_id: str, limits: NewLimits | None = None) -> Payload:
    """Let a loop that has ended go on from its last completed iteration."""
    new_limits = limits or NewLimits()
    return await loops.resume(services, loop_id, new_limits.max_iterations, new_limits.timeout_s)


@router.post("/{loop_id}/land", status=201, answer=Submitted, errors=(Conflict,))
async def land(services: Services, loop_id: str, body: ChosenIteration | None = None) -> Payload:
    """Put what an iteration made into the merge queue, although the loop has not converged."""
    return await loops.land(services, loop_id, body.iteration if body else None)
