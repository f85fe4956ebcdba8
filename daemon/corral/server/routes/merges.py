"""Merge requests over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.landing import requests
from corral.models import merges as shapes
from corral.models.states import OPEN_MERGES, MergeState
from corral.server.assembly import merge_settled
from corral.server.logtail import FURTHEST, LogPart, follow
from corral.server.pages import MOST, Page, answer, page
from corral.server.routes.callers import SessionId
from corral.server.routing import Routes
from corral.server.services import Services
from corral.store import merges

router = Routes("merges", "/merges")


class Submission(BaseModel):
    """A branch for its target."""

    branch: str = Field(min_length=1, max_length=1024)
    target: str | None = Field(None, min_length=1, max_length=1024)
    title: str | None = Field(None, max_length=500)
    session_id: SessionId | None = None


class Again(BaseModel):
    """How to try again."""

    follow_branch: bool = False


@router.get("", response_model=list[dict[str, Any]])
async def listing(
    services: Services,
    request: Request,
    state: Sequence[MergeState] = (),
    branch: Annotated[str | None, Field(max_length=1024, description="Only of this branch.")] = None,
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[str | None, Field(max_length=64, description="The id of the last one known.")] = None,
) -> Response:
    """Merge requests in order of submission."""

    def look(conn: Connection) -> Page:
        return page(map(shapes.summary, merges.listing(conn, state, branch=branch, after=after, limit=limit)), limit)

    return answer(request, await services.read(look), lambda row: {"after": row["merge_id"]})


@router.post("", status_code=201)
async def submit(services: Services, wanted: Submission) -> dict[str, Any]:
    """Put a branch into the queue; ``merge_id`` is null if the target has everything of it already."""
    now = services.now()
    target = wanted.target or services.settings.target().removeprefix("refs/heads/")
    row = await services.work(
        lambda: requests.submit(
            services.db,
            services.git,
            branch=wanted.branch,
            target=target,
            now=now,
            title=wanted.title,
            session_id=wanted.session_id,
        )
    )
    if row is None:
        return {"merge_id": None, "branch": wanted.branch, "target": target, "state": None}
    services.nudge("landing")
    return shapes.summary(row)


@router.get("/{merge_id}")
async def detail(services: Services, merge_id: str) -> dict[str, Any]:
    """Everything about one merge request."""
    return await services.work(lambda: requests.detail(services.db, merge_id))


@router.post("/{merge_id}/retry")
async def retry(services: Services, merge_id: str, how: Again | None = None) -> dict[str, Any]:
    """Queue again what came back."""
    now, follow_branch = services.now(), how.follow_branch if how else False
    row = await services.work(
        lambda: requests.retry(services.db, services.git, merge_id, now=now, follow_branch=follow_branch)
    )
    services.nudge("landing")
    return shapes.summary(row)


@router.post("/{merge_id}/cancel")
async def cancel(services: Services, merge_id: str) -> dict[str, Any]:
    """Take a request out of the queue; its branch stays."""
    now, settled = services.now(), merge_settled(services.settings)
    row = await services.work(lambda: requests.cancel(services.db, services.git, merge_id, on_settled=settled, now=now))
    services.nudge("landing")
    services.nudge("supervisor")
    return shapes.summary(row)


@router.get("/{merge_id}/log")
async def log(
    services: Services,
    merge_id: str,
    offset: Annotated[int, Field(ge=0, le=FURTHEST)] = 0,
    wait_s: Annotated[float, Field(ge=0, le=30)] = 0,
) -> LogPart:
    """A part of the output of a request's last verification; waits up to ``wait_s`` for more."""
    row = await services.read(lambda conn: merges.get(conn, merge_id))
    file = await services.work(lambda: requests.log_file(services.db, services.project.logs_dir, row["merge_id"]))
    if file is None:
        return LogPart(text="", next_offset=0, complete=row["state"] not in OPEN_MERGES)

    async def running() -> bool:
        current = await services.read(lambda conn: merges.get(conn, row["merge_id"]))
        return current["state"] in OPEN_MERGES

    return await follow(services, file, offset, wait_s, running)
