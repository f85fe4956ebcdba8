"""Targets that lost what had landed on them, over HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from corral.coordination.services import Services
from corral.core.errors import NotPermitted
from corral.core.instants import iso
from corral.core.routing import Routes
from corral.landing.queue import Queue
from corral.landing.rewinds import Rewind

router = Routes("rewinds", "/rewinds")


class Acceptance(BaseModel):
    """A person's yes to what a target lost; a worker or a session that says who it is is refused."""

    target: str = Field(min_length=1, max_length=1024)
    lost: list[str] = Field(min_length=1, max_length=100, description="The lost tips that were seen.")
    session_id: str | None = Field(None, max_length=128, description="The agent session that asks, if one does.")
    task_id: str | None = Field(None, max_length=64, description="The task whose worker asks, if one does.")


@router.get("")
async def listing(services: Services) -> list[dict[str, Any]]:
    """The landed work that targets lost, as long as nobody has decided about it."""
    return [_wire(rewind) for rewinds in services.of(Queue).rewinds.open.values() for rewind in rewinds]


@router.post("/accept")
async def accept(services: Services, given: Acceptance) -> dict[str, Any]:
    """Accept, as a person, that a target lost what had landed on it; holds for exactly what was seen."""
    if given.session_id is not None or given.task_id is not None:
        raise NotPermitted(
            "Only a person accepts that landed work is gone.",
            cause=f"The request comes from {'a worker' if given.task_id else 'an agent session'}.",
            remedy=f"In a terminal of your own: corral merge accept-rewind {given.target}",
        )
    now, rewinds = services.now(), services.of(Queue).rewinds
    found = await services.work(lambda: rewinds.accept(services.git, given.target, given.lost, now))
    services.nudge("landing")
    return {"target": given.target, "accepted": [_wire(rewind) for rewind in found]}


def _wire(rewind: Rewind) -> dict[str, Any]:
    return {
        "target": rewind.target,
        "lost_sha": rewind.lost_sha,
        "tip": rewind.tip,
        "at": iso(rewind.at),
        "what": rewind.what,
        "remedy": rewind.remedy,
        "requests": [{key: row[key] for key in ("merge_id", "task_id", "title")} for row in rewind.requests],
    }
