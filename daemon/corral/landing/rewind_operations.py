"""Targets that lost what had landed on them, over HTTP."""

from __future__ import annotations

from corral.coordination.services import Services
from corral.core.errors import Conflict
from corral.core.instants import iso
from corral.core.routing import EVERYONE, PERSON, PROJECT, Routes
from corral.landing.api import Acceptance, LostTip, RewindAccepted
from corral.landing.queue import Queue
from corral.landing.rewinds import Rewind
from corral.landing.steering_operations import require_person

router = Routes("rewinds", "/rewinds", scope=PROJECT, callers=EVERYONE)


@router.get("")
async def listing(services: Services) -> list[LostTip]:
    """The landed work that targets lost, as long as nobody has decided about it."""
    return [_wire(rewind) for rewinds in services.of(Queue).rewinds.open.values() for rewind in rewinds]


@router.post("/accept", callers=PERSON, errors=(Conflict,))
async def accept(services: Services, body: Acceptance) -> RewindAccepted:
    """Accept, as a person, that a target lost what had landed on it; holds for exactly what was seen."""
    require_person(body, "accepts that landed work is gone", f"accept-rewind {body.target}")
    now, rewinds = services.now(), services.of(Queue).rewinds
    rewinds_accepted = await services.work(lambda: rewinds.accept(services.git, body.target, body.lost, now))
    services.nudge("landing")
    return {"target": body.target, "accepted": [_wire(rewind) for rewind in rewinds_accepted]}


def _wire(rewind: Rewind) -> LostTip:
    return {
        "target": rewind.target,
        "lost_sha": rewind.lost_sha,
        "tip": rewind.tip,
        "at": iso(rewind.at),
        "what": rewind.what,
        "remedy": rewind.remedy,
        "requests": [
            {"merge_id": row["merge_id"], "task_id": row["task_id"], "title": row["title"]} for row in rewind.requests
        ],
    }
