"""Merge requests over HTTP."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.config import account, trust
from corral.config.paths import Project
from corral.coordination.services import Services
from corral.coordination.settings import CONFIG_IN_TREE
from corral.core.errors import ConfigInvalid, Conflict, CorralError
from corral.core.logs import logger
from corral.core.pages import MOST, Page, answer, page
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, MACHINE, PERSON, PROJECT, Routes
from corral.core.states import OPEN_MERGES
from corral.git import refs
from corral.landing import approval, candidate_graph, opening, pauses, requests, runs, standing, steering_operations
from corral.landing.api import (
    Again,
    Approval,
    Dismissed,
    FlakyTest,
    GraphOfTarget,
    MergeLogPart,
    MergeWord,
    Opened,
    Review,
    Submission,
)
from corral.landing.verify import flaky_tests
from corral.store.rows.merges import MergeRow
from corral.work.logtail import FURTHEST, POLL_S, Tail, offset_of_tail, read_part
from corral.work.merges import diffs
from corral.work.merges import settling as app_merges
from corral.work.merges import wire as merge_shapes
from corral.work.merges.api import Changes, WithPatch
from corral.work.merges.settling import merge_settled
from corral.work.merges.store import flakes, merges, of_tasks
from corral.work.merges.wire import MergeDetail, MergeListed, MergeRun, MergeSummary, Submitted
from corral.work.tasks.store import outcomes
from corral.work.tasks.tasks import dismiss as settle
from corral.work.worktrees.api import OF_A_WORKTREE
from corral.work.worktrees.worktrees import Worktrees

router = Routes("merges", "/merges", scope=PROJECT, callers=EVERYONE)

_log = logger("merges")


@router.get("", answer=list[MergeListed])
async def listing(
    services: Services,
    request: Request,
    state: Annotated[Sequence[MergeWord], Field(description="Only these outcomes or states.")] = (),
    branch: Annotated[str | None, Field(max_length=1024, description="Only requests for this branch.")] = None,
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[str | None, Field(max_length=64, description="The id of the last one known.")] = None,
) -> Response:
    """Merge requests in order of submission."""

    def look(conn: Connection) -> Page:
        called = [outcomes.requests_called(state)] if state else []
        rows = merges.listing(conn, branch=branch, after=after, limit=limit, only=called)
        numbers = of_tasks.numbers(conn, {row["task_id"] for row in rows if row["task_id"] is not None})
        is_any_open = any(row["state"] in OPEN_MERGES for row in rows)
        standings = standing.by_id(conn, services.settings().landing.ageing_s, services.now()) if is_any_open else {}
        reverted = merges.taken_back(conn, [row["merge_id"] for row in rows])
        requests = (merge_shapes.listed(row, numbers, standings, reverted) for row in pauses.explained(conn, rows))
        return page(requests, limit)

    return answer(request, await services.store.read(look), lambda row: {"after": row["merge_id"]})


@router.get("/graph")
async def graph(services: Services) -> list[GraphOfTarget]:
    """The candidates of the queue, target by target: what each is built upon, and what is known of it."""
    return await services.store.read(
        lambda conn: candidate_graph.of_targets(conn, MOST, services.settings().landing.ageing_s, services.now())
    )


@router.post("", status=201, answer=Submitted)
async def submit(services: Services, body: Submission) -> Payload:
    """Put a branch into the queue; ``merge_id`` is null if the target has everything of it already."""
    answer = await app_merges.submit(services, **body.model_dump(exclude={"agent_id"}))
    return await services.store.read(requests.with_reason, answer)


@router.get("/flakes")
async def flaky(
    services: Services,
    target: Annotated[str | None, Field(max_length=1024, description="Only on this branch.")] = None,
) -> list[FlakyTest]:
    """Tests that failed and then passed on one tree, the one that did so last first."""
    return flaky_tests.by_test(await services.store.read(flakes.newest, target))


@router.get("/{merge_id}", answer=MergeDetail)
async def detail(services: Services, merge_id: str) -> Payload:
    """Everything about one merge request."""
    ageing_s, now = services.settings().landing.ageing_s, services.now()
    return await services.work(lambda: requests.detail(services.db, merge_id, ageing_s=ageing_s, now=now))


@router.post("/{merge_id}/retry", answer=MergeSummary, errors=(Conflict,))
async def retry(services: Services, merge_id: str, how: Again | None = None) -> Payload:
    """Queue again what came back."""
    now, follow_branch = services.now(), how.follow_branch if how else False
    reopened = merge_settled(services.settings)
    row = await services.work(
        lambda: requests.retry(
            services.db, services.git, merge_id, now=now, follow_branch=follow_branch, on_reopened=reopened
        )
    )
    services.nudge("landing")
    return merge_shapes.summary(row)


@router.get("/{merge_id}/approval", errors=(ConfigInvalid,))
async def review(services: Services, merge_id: str) -> Review:
    """The part of a request that needs a person's approval: the paths, and how they would change."""
    reviewed = await services.work(lambda: _reviewed(services, merge_id))
    return {
        "merge_id": reviewed.merge_id,
        "head_sha": reviewed.head_sha,
        "reason": reviewed.reason,
        "paths": reviewed.paths,
        "diff": reviewed.diff,
        "truncated": reviewed.truncated,
    }


@router.post("/{merge_id}/approve", answer=MergeSummary, callers=PERSON, errors=(Conflict, ConfigInvalid))
async def approve(services: Services, merge_id: str, body: Approval) -> Payload:
    """Approve, as a person, what a request changes; holds for exactly the head that was seen."""
    steering_operations.require_person(body, "approves a merge", f"approve {merge_id[:8]}")
    reviewed = await services.work(lambda: _reviewed(services, merge_id))
    now = services.now()
    row = await services.store.write(approval.approve, reviewed.merge_id, body.head_sha, reviewed.paths, now)
    if CONFIG_IN_TREE in reviewed.paths:
        await services.work(lambda: _trust_settings(services, row))
    services.nudge("landing")
    return merge_shapes.summary(row)


def _trust_settings(services: Services, merge: MergeRow) -> None:
    """An approval of changed settings covers the commands in them: no second approval is needed once it has landed."""
    data = refs.show_file(services.git, merge["candidate_sha"] or merge["head_sha"], CONFIG_IN_TREE)
    try:
        claims = trust.of_file(services.project, data or b"", account.home())
        services.settings.answers.approve(services.project.common_dir, claims)
    except (CorralError, OSError) as error:  # the approval stands; `corral trust` asks for this once it has landed
        _log.warning("approved_settings_not_trusted", merge_id=merge["merge_id"], reason=str(error))


def _reviewed(services: Services, merge_id: str) -> approval.Review:
    with services.db.reading() as conn:
        merge = of_tasks.named(conn, merge_id)
    landing = services.settings.for_target(refs.branch_ref(merge["target"])).landing
    return approval.review(services.git, landing, merge)


@router.post("/{merge_id}/open", scope=MACHINE, callers=PERSON, errors=OF_A_WORKTREE)
async def open_worktree(services: Services, merge_id: str) -> Opened:
    """Open a request's work in a worktree of its own; after a conflict with the merge of its target begun there."""
    row = await services.work(lambda: services.db.read(of_tasks.named, merge_id))
    db, repo = services.db, services.git
    return await services.work(lambda: opening.open_request(db, repo, services.of(Worktrees), row))


@router.get("/{merge_id}/diff", answer=Changes)
async def diff(services: Services, merge_id: str, patch: WithPatch = True) -> Payload:
    """The changes of a merge request on its target; without ``patch`` only the numbers of lines."""
    most = diffs.MOST_SHOWN if patch else None
    return await services.work(lambda: diffs.of_merge(services, merge_id, most=most))


@router.post("/{merge_id}/cancel", answer=MergeSummary, errors=(Conflict,))
async def cancel(services: Services, merge_id: str) -> Payload:
    """Take a request out of the queue; its branch stays."""
    now, settled = services.now(), merge_settled(services.settings)
    row = await services.work(lambda: requests.cancel(services.db, services.git, merge_id, on_settled=settled, now=now))
    services.nudge("landing")
    services.nudge("supervisor")
    return merge_shapes.summary(row)


@router.post("/{merge_id}/dismiss", answer=Dismissed, errors=(Conflict,))
async def dismiss(services: Services, merge_id: str) -> Payload:
    """Nothing more is to be done about a request that came back, or (by its id) about a task that failed."""
    now = services.now()
    answer = await services.store.write(settle, merge_id, now)
    services.changes.announce()
    return answer


@router.get("/{merge_id}/log", scope=MACHINE)
async def log(
    services: Services,
    merge_id: str,
    offset: Annotated[int, Field(ge=0, le=FURTHEST)] = 0,
    wait_s: Annotated[float, Field(ge=0, le=30)] = 0,
    tail: Tail = None,
    run: Annotated[
        str | None,
        Field(description="Another run: its number, `candidate`, `control` or `check`; the last of its kind."),
    ] = None,
) -> MergeLogPart:
    """A part of the output of the verification that decided a request, or of the one that runs now.

    ``run`` names another: its number, `candidate` or `control`. With ``wait_s`` it waits for more; a run that is over is then
    followed by the next one.
    """
    deadline = time.monotonic() + wait_s
    while True:
        shown = await services.work(lambda: runs.show(services.db, services.project, merge_id, run))
        is_over = shown.run is None or shown.run.status != runs.RUNNING  # asked before reading
        text, following = await services.work(functools.partial(_read, services.project, shown.run, offset, tail))
        if not text and is_over and wait_s and shown.following is not None:
            return {"text": "", "next_offset": 0, "complete": False, "run": shown.following}
        is_all = not text and is_over and (not shown.is_open or (run is not None and not wait_s))
        if text or is_all or time.monotonic() >= deadline:
            return {"text": text, "next_offset": following, "complete": is_all, "run": shown.run}
        await asyncio.sleep(POLL_S)


def _read(project: Project, run: MergeRun | None, offset: int, tail: int | None) -> tuple[str, int]:
    file = runs.log_of(project, run) if run is not None else None
    if run is None or file is None:
        return "", offset
    begin = max(offset if tail is None else offset_of_tail(file, tail), runs.begins_at(file))
    return read_part(file, begin, growing=run.status == runs.RUNNING)


@router.get("/{merge_id}/runs")
async def listed_runs(services: Services, merge_id: str) -> list[MergeRun]:
    """The verifications that ran for a request, oldest first."""

    def read(conn: Connection) -> list[MergeRun]:
        return runs.listing(conn, services.project, of_tasks.named(conn, merge_id))

    return await services.work(lambda: services.db.read(read))
