"""Loops over HTTP. One is started by submitting a task with ``loop``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from corral.coordination.services import Services
from corral.core.routing import Routes
from corral.work.loops import views as loops
from corral.work.merges.diffs import MOST_SHOWN
from corral.work.tasks import wire as task_shapes

router = Routes("loops", "/loops")
MOST = 2**31
"""The largest number of an iteration that is looked for."""


class Why(BaseModel):
    """Why it is stopped."""

    reason: task_shapes.Reason = "The loop was stopped."


class Limits(BaseModel):
    """New limits, counted from where it goes on; null: as before."""

    max_iterations: Annotated[int, Field(ge=1, le=1_000_000)] | Literal["unlimited"] | None = None
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class Chosen(BaseModel):
    """An iteration; null: the best one."""

    iteration: int | None = Field(default=None, ge=1, le=MOST)


@router.get("")
async def listing(services: Services) -> list[dict[str, Any]]:
    """The loops, the newest first."""
    return await services.store.read(lambda conn: loops.listing(services, conn))


@router.get("/{loop_id}")
async def status(services: Services, loop_id: str) -> dict[str, Any]:
    """Where a loop stands, named by its task."""
    return await services.store.read(lambda conn: loops.status(services, conn, loop_id))


@router.get("/{loop_id}/history")
async def history(services: Services, loop_id: str) -> list[dict[str, Any]]:
    """The completed iterations, each with its result and its evaluation."""
    return await services.store.read(lambda conn: loops.history(conn, loop_id))


@router.get("/{loop_id}/diff")
async def diff(
    services: Services,
    loop_id: str,
    before: Annotated[int | None, Field(ge=0, le=MOST)] = None,
    after: Annotated[int | None, Field(ge=1, le=MOST)] = None,
    patch: bool = True,
) -> dict[str, Any]:
    """The changes between two iterations; by default those of the last one."""
    most = MOST_SHOWN if patch else None
    return await services.work(lambda: loops.diff(services, loop_id, before, after, most))


@router.post("/{loop_id}/stop")
async def stop(services: Services, loop_id: str, why: Why | None = None) -> dict[str, Any]:
    """Stop a loop; what its iterations made stays, and it can be resumed."""
    return await loops.stop(services, loop_id, (why or Why()).reason)


@router.post("/{loop_id}/resume")
async def resume(services: Services, loop_id: str, limits: Limits | None = None) -> dict[str, Any]:
    """Let a loop that has ended go on from its last completed iteration."""
    given = limits or Limits()
    return await loops.resume(services, loop_id, given.max_iterations, given.timeout_s)


@router.post("/{loop_id}/land", status_code=201)
async def land(services: Services, loop_id: str, chosen: Chosen | None = None) -> dict[str, Any]:
    """Put what an iteration made into the merge queue, although the loop has not converged."""
    return await loops.land(services, loop_id, chosen.iteration if chosen else None)
