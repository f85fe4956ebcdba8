"""Commands that files of the project would run, and the user has not approved on this machine."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.errors import ConfigInvalid
from corral.core.routing import EVERYONE, MACHINE, Routes
from corral.git import refs
from corral.git.land.upstream import joined_ref, seen_ref
from corral.work.agents import choices
from corral.work.merges.store import merges
from corral.work.roadmap.supervision import RoadmapSupervision
from corral.work.trust.api import UnapprovedCommand, Untrusted

router = Routes("trust", "/trust", scope=MACHINE, callers=EVERYONE)

RELOAD_S = 3.0
"""How long an answer waits until the settings were read: what was approved holds for the next command."""


@router.get("")
async def listing(services: Services) -> Untrusted:
    """Commands that wait for the user's approval, also of targets that merges wait for."""
    return {"untrusted": await _untrusted(services)}


@router.post("/reload")
async def reload(services: Services) -> Untrusted:
    """Look at the user's answers again and go on with what they allow; ``untrusted``: what still waits."""
    await services.work(partial(services.reload().wait, RELOAD_S))
    services.nudge("supervisor")
    services.nudge("landing")
    services.nudge("roadmap")
    services.nudge("alerts")
    services.nudge("webhook")
    services.nudge("traces")
    return {"untrusted": await _untrusted(services)}


async def _untrusted(services: Services) -> list[UnapprovedCommand]:
    def targets(conn: Connection) -> list[str | None]:
        busy = merges.busy_targets(conn)
        there = [ref(target) for target in busy for ref in (seen_ref, joined_ref)]
        return [None, services.settings.target(), *map(refs.branch_ref, busy), *there]

    def look() -> list[UnapprovedCommand]:
        claims = {}
        for target in services.db.read(targets):
            try:
                claims.update({claim.digest: claim for claim in services.settings.untrusted(target)})
            except ConfigInvalid:  # a broken file executes nothing; status and doctor say what is wrong with it
                continue
        claims.update({claim.digest: claim for claim in services.of(RoadmapSupervision).unapproved()})
        claims.update({claim.digest: claim for claim in services.db.read(choices.unapproved, services)})
        return [{"key": claim.key, "value": claim.value, "source": claim.source} for claim in claims.values()]

    return await services.work(look)
