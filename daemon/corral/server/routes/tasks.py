"""Tasks over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, Field

from corral.errors import InvalidInput, NotFound
from corral.models import tasks as shapes
from corral.models.states import RunnerName, TaskStatus
from corral.server.logtail import LogPart, follow
from corral.server.routes.dependencies import Given
from corral.server.services import Services
from corral.work import tasks

router = APIRouter(prefix="/tasks", tags=["tasks"])


class Batch(BaseModel):
    """Several tasks, all or none."""

    tasks: list[dict[str, Any]] = Field(min_length=1, max_length=1000)


class Reason(BaseModel):
    """Why."""

    reason: str = Field("Cancelled.", max_length=2000)


def _available(services: Services, submissions: list[shapes.TaskSubmission]) -> None:
    """Refuse now what no worker here could run, instead of failing it later."""
    for runner in {submission.runner for submission in submissions} - {None}:
        assert runner is not None
        services.supervisor.check_runner(RunnerName(runner))


@router.post("", status_code=201)
async def submit(services: Given, body: dict[str, Any] = Body(...)) -> dict[str, Any]:  # noqa: B008
    """Queue one task; acknowledged when it is durable."""
    submissions = shapes.read_submissions([body])
    _available(services, submissions)
    now, rules = services.now(), services.settings().tasks
    row = await services.write(lambda conn: tasks.submit(conn, submissions[0], now, rules))
    services.nudge("supervisor")
    return {"task_id": row["task_id"], "status": row["status"], "title": row["title"]}


@router.post("/batch", status_code=201)
async def submit_batch(services: Given, batch: Batch) -> dict[str, Any]:
    """Queue several tasks, all or none; they may wait for each other by ``name``."""
    submissions = shapes.read_submissions(list(batch.tasks))
    _available(services, submissions)
    now, rules = services.now(), services.settings().tasks
    rows = await services.write(lambda conn: tasks.submit_batch(conn, submissions, now, rules))
    services.nudge("supervisor")
    return {"task_ids": [row["task_id"] for row in rows], "queued": len(rows)}


@router.get("")
async def listing(
    services: Given,
    status: list[TaskStatus] = Query(default=[]),  # noqa: B008
    min_priority: int = Query(0, ge=0, le=10),
    limit: int | None = Query(None, gt=0),
) -> list[dict[str, Any]]:
    """Tasks, highest priority first, then oldest first."""
    return await services.read(
        lambda conn: tasks.listing(conn, statuses=[str(one) for one in status], min_priority=min_priority, limit=limit)
    )


@router.get("/{task_id}")
async def detail(services: Given, task_id: str) -> dict[str, Any]:
    """Everything about one task; reading changes nothing."""
    return await services.read(lambda conn: tasks.detail(conn, task_id))


@router.post("/{task_id}/cancel")
async def cancel(services: Given, task_id: str, why: Reason) -> dict[str, Any]:
    """Cancel a task: at once if it waits, within seconds if it runs."""
    now, rules = services.now(), services.settings().tasks
    row = await services.write(lambda conn: tasks.cancel(conn, task_id, now, rules, reason=why.reason))
    services.nudge("supervisor")
    return {"task_id": row["task_id"], "status": row["status"]}


@router.post("/{task_id}/retry")
async def retry(services: Given, task_id: str) -> dict[str, Any]:
    """Run a task again on the present tip; what failed because of it revives."""
    now, rules = services.now(), services.settings().tasks
    row = await services.write(lambda conn: tasks.retry(conn, task_id, now, rules))
    services.nudge("supervisor")
    return {"task_id": row["task_id"], "status": row["status"]}


@router.get("/{task_id}/log")
async def log(
    services: Given,
    task_id: str,
    offset: int = Query(0, ge=0),
    wait_s: float = Query(0, ge=0, le=30),
    attempt: int | None = Query(None, gt=0),
) -> LogPart:
    """A part of an attempt's output (by default the last attempt's), from ``offset`` on; waits up to ``wait_s`` for more."""
    row = await services.read(lambda conn: tasks.find(conn, task_id))
    number = attempt or int(row["fencing_token"])
    if number < 1:
        return LogPart(text="", next_offset=0, complete=False)
    file: Path = services.project.logs_dir / "tasks" / row["task_id"] / f"{number}.log"
    if attempt is not None and not file.exists():
        raise NotFound(f"Task {row['task_id']} has no attempt {attempt}.")

    async def running() -> bool:
        current = await services.read(lambda conn: tasks.find(conn, row["task_id"]))
        return bool(current["status"] == TaskStatus.RUNNING and current["fencing_token"] == number)

    return await follow(services, file, offset, wait_s, running)


@router.post("/{task_id}/reprioritize")
async def reprioritize(services: Given, task_id: str, body: dict[str, Any] = Body(...)) -> dict[str, Any]:  # noqa: B008
    """Give a task that has not begun another priority, 0 to 10."""
    priority = body.get("priority")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise InvalidInput("`priority` must be a whole number from 0 to 10.")
    now = services.now()
    row = await services.write(lambda conn: tasks.reprioritize(conn, task_id, priority, now))
    services.nudge("supervisor")
    return {"task_id": row["task_id"], "priority": row["priority"]}
