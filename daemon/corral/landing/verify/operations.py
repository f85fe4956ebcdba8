"""Trying the verification before anything depends on it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from starlette.requests import Request

from corral.coordination.services import Services
from corral.core.errors import Conflict, InvalidInput
from corral.core.inputs import note
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, MACHINE, NO_WORK, Routes
from corral.git import refs
from corral.landing.verify import api
from corral.landing.verify.dry_run import DryRun, Finding
from corral.landing.verify.verification_context import VerificationContext
from corral.work.worktrees.api import OF_A_WORKTREE

router = Routes("verification", "/verification", scope=MACHINE, callers=EVERYONE)
POLL_S = 0.2
_ONE = ("", "dry-run")
"""The key of the lock that lets one dry run in."""


@router.post("/dry-run", answer=api.DryRun, callers=NO_WORK, errors=OF_A_WORKTREE)
async def dry_run(services: Services, request: Request, body: api.DryRunWanted) -> Payload:
    """Run the target's verification on its tip in a fresh worktree, and name the files that it lacks there."""
    lock = services.creation_locks.setdefault(_ONE, asyncio.Lock())
    if lock.locked():
        raise Conflict(
            "A dry run of the verification is in progress.",
            cause="One runs at a time.",
            remedy="Wait for its end, then try again.",
        )
    async with lock:
        run = await services.work(lambda: _begin(services, body.timeout_s))
        try:
            finding = await _followed(services, request, run)
            return {**asdict(finding), "log": str(finding.log), "note": note(finding.inputs)}
        finally:
            await services.work(lambda: run.close(services.now()))


def _begin(services: Services, limit_s: float) -> DryRun:
    target = services.settings.target()
    landing = services.settings.for_target(target).landing
    tip = refs.read(services.git, target)
    if not landing.verify or tip is None:
        raise InvalidInput(
            "There is no verification command to try.",
            cause="landing.verify is empty.",
            remedy="Name your test command in .corral/config.yaml: landing: {verify: ['…']}.",
        )
    return DryRun(services.git, services.of(VerificationContext), landing, tip, limit_s, services.now())


async def _followed(services: Services, request: Request, run: DryRun) -> Finding:
    while (finding := await services.work(lambda: run.step(services.now()))) is None:
        if services.stopping or await request.is_disconnected():
            raise Conflict("The dry run was broken off.", cause="The daemon stops, or nobody waits for it any more.")
        await asyncio.sleep(POLL_S)
    return finding
