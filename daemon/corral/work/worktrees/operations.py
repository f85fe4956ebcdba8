"""Worktrees and salvaged work over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from urllib.parse import unquote

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.services import Services
from corral.coordination.sessions import claims
from corral.core.errors import FolderLinked, PathReplaced, TargetGone, Unsupported, WorkAtRisk
from corral.core.pages import MOST, answer, following, page
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, MACHINE, PERSON, Routes
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.api import (
    OF_A_WORKTREE,
    NewWorktree,
    PlaceOfWorktrees,
    Pool,
    RecoveredWorktree,
    RemovedWorktree,
    SavedWork,
    Worktree,
)
from corral.work.worktrees.worktrees import Worktrees

router = Routes("worktrees", scope=MACHINE, callers=EVERYONE)


Limit = Annotated[int, Field(ge=1, le=MOST)]


async def _part(
    services: Services,
    request: Request,
    rows: Callable[[], list[Payload]],
    key: str,
    after: str | None,
    limit: int,
) -> Response:
    part = await services.work(lambda: page(following(rows(), key, after), limit))
    return answer(request, part, lambda row: {"after": row[key]})


@router.get("/worktrees", answer=list[Worktree])
async def listing(
    services: Services,
    request: Request,
    limit: Limit = MOST,
    after: Annotated[str | None, Field(max_length=64, description="The name of the last one known.")] = None,
) -> Response:
    """The worktrees that Corral allocated and that are not removed, the oldest first."""
    return await _part(services, request, services.of(Worktrees).listing, "name", after, limit)


@router.get("/worktrees/pool")
async def pool(services: Services) -> Pool:
    """The worktrees kept for the next tasks, their bounds, and how often one was used."""
    return await services.work(services.of(Worktrees).pool)


@router.get("/worktrees/place", errors=(Unsupported,))
async def place(services: Services) -> PlaceOfWorktrees:
    """Where new worktrees are made, why there, and what tools that search upward would find."""
    choice = await services.work(services.of(WorktreeContext).places.choose)
    return {
        "path": str(choice.path),
        "configured": choice.is_configured,
        "passed_over": list(choice.passed_over),
        "finds": list(choice.finds),
        "warning": choice.warning(),
    }


@router.post("/worktrees", status=201, answer=Worktree, errors=(*OF_A_WORKTREE, TargetGone))
async def create(services: Services, body: NewWorktree) -> Payload:
    """Make a worktree that is ready to work in."""
    return await services.work(
        lambda: services.of(Worktrees).create(body.name, session_id=body.session_id, base=body.base)
    )


@router.delete("/worktrees/{name}", answer=RemovedWorktree, errors=(WorkAtRisk, PathReplaced, FolderLinked))
async def remove(services: Services, request: Request, name: str) -> Payload:
    """Remove a worktree; what is found nowhere else is saved first. An agent leaves another's that has uncommitted changes."""
    who = await claims.claimant(services, request.scope)
    gone = await services.work(lambda: services.of(Worktrees).remove(name, who))
    services.nudge("landing")  # a branch that has landed may have waited for this
    return gone


@router.get("/salvage", answer=list[SavedWork])
async def salvaged(
    services: Services,
    request: Request,
    limit: Limit = MOST,
    after: Annotated[str | None, Field(max_length=512, description="The ref of the last one known.")] = None,
) -> Response:
    """Saved work, newest first."""
    return await _part(services, request, services.of(Worktrees).salvaged, "ref", after, limit)


@router.get("/salvage/private", callers=PERSON, answer=list[SavedWork])
async def saved_ignored(
    services: Services,
    request: Request,
    limit: Limit = MOST,
    after: Annotated[str | None, Field(max_length=512, description="The ref of the last one known.")] = None,
) -> Response:
    """Saved files that git ignores, newest first."""
    return await _part(services, request, services.of(Worktrees).saved_ignored, "ref", after, limit)


@router.post(
    "/worktrees/{name:path}/recover/all", callers=PERSON, answer=RecoveredWorktree, errors=(*OF_A_WORKTREE, TargetGone)
)
async def recover_all(services: Services, name: str) -> Payload:
    """Bring saved work back, and with it the files that git ignores.

    ``name`` is a worktree's, a full salvage ref, or the ref of saved ignored files without its prefix.
    """
    return await services.work(lambda: services.of(Worktrees).recover_all(unquote(name)))


@router.post("/worktrees/{name:path}/recover", answer=RecoveredWorktree, errors=OF_A_WORKTREE)
async def recover(services: Services, name: str) -> Payload:
    """Bring saved work back into a worktree of its own; ``name`` is a worktree's, or a full salvage ref."""
    return await services.work(lambda: services.of(Worktrees).recover(unquote(name)))
