"""Tasks over HTTP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.config import trust
from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.errors import (
    ApiKeyUnavailable,
    Conflict,
    IdempotencyKeyConflict,
    InvalidInput,
    LeaseLost,
    NotFound,
    RunnerUnavailable,
)
from corral.core.pages import MOST, Page, answer, page
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, MACHINE, PROJECT, Routes
from corral.core.states import TaskStatus
from corral.runners import stream
from corral.store.rows.tasks import TaskRow
from corral.work.agents import record
from corral.work.logtail import FURTHEST, LogPart, Tail, follow
from corral.work.merges import diffs
from corral.work.merges.api import Changes, WithPatch
from corral.work.tasks import completion, dependencies, tasks, views
from corral.work.tasks import submitting as app_tasks
from corral.work.tasks.api import (
    BatchSubmitted,
    Cancellation,
    Cancelled,
    Claim,
    Claimed,
    Completed,
    Completion,
    Conversation,
    Feedback,
    Followed,
    NewPriority,
    Opinion,
    Reprioritized,
    Short,
    Submitted,
    Task,
    TaskDetail,
    TaskRead,
    TaskState,
    TaskWord,
)
from corral.work.tasks.following import Place
from corral.work.tasks.following import follow as follow_task
from corral.work.tasks.store.dependencies import DEPENDENCY_FAILED, unsettled_children
from corral.work.tasks.wire import Batch, Submission
from corral.work.worktrees import reopening
from corral.work.worktrees.api import OF_A_WORKTREE
from corral.work.worktrees.worktrees import Worktrees

router = Routes("tasks", "/tasks", scope=PROJECT, callers=EVERYONE)
OF_A_SUBMISSION = (Conflict, IdempotencyKeyConflict, RunnerUnavailable, ApiKeyUnavailable)
GIVEN_BACK_WITHIN_S = 15.0
"""How long a person who attaches waits for the worktree of a worker that has just ended."""


def _state(row: TaskRow) -> TaskState:
    return {"task_id": row["task_id"], "status": TaskStatus(row["status"])}


@router.post("", status=201, errors=(*OF_A_SUBMISSION, NotFound))
async def submit(services: Services, body: Submission) -> Submitted:
    """Queue one task; acknowledged when it is durable."""
    row = await app_tasks.submit(services, body)
    return {**_state(row), "number": row["seq"], "title": row["title"]}


@router.post("/batch", status=201, errors=OF_A_SUBMISSION)
async def submit_batch(services: Services, batch: Batch) -> BatchSubmitted:
    """Queue several tasks, all or none; they may wait for each other by ``name``."""
    rows = await app_tasks.submit_batch(services, batch.tasks)
    ids, numbers = [row["task_id"] for row in rows], [row["seq"] for row in rows]
    return {"task_ids": ids, "numbers": numbers, "queued": len(rows)}


@router.get("", answer=list[Task])
async def listing(
    services: Services,
    request: Request,
    status: Annotated[Sequence[TaskWord], Field(description="Only these statuses or outcomes.")] = (),
    min_priority: Annotated[int, Field(ge=0, le=10, description="Only this priority and above.")] = 0,
    agent: Annotated[Short | None, Field(description="Only tasks for this agent.")] = None,
    task_type: Annotated[Short | None, Field(description="Only tasks of this type.")] = None,
    template: Annotated[Short | None, Field(description="Only of this template.")] = None,
    thread_id: Annotated[Short | None, Field(description="Only tasks of this batch.")] = None,
    task_id: Annotated[Sequence[Short], Field(max_length=100, description="Only these, by whole ids.")] = (),
    sort: Annotated[str, Field(max_length=16, description="`priority`, `oldest` or `newest`.")] = "priority",
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[str | None, Field(max_length=64, description="`priority,task_id` of the last one known.")] = None,
) -> Response:
    """Tasks: by default highest priority first, then oldest first."""
    filters = {"agent": agent, "task_type": task_type, "template": template, "thread_id": thread_id}
    only = {column: value for column, value in filters.items() if value is not None}

    def look(conn: Connection) -> Page:
        rows = views.listing(
            conn,
            statuses=status,
            min_priority=min_priority,
            only=only,
            ids=task_id,
            sort=sort,
            after=after,
            limit=limit,
        )
        return page(rows, limit)

    return answer(request, await services.store.read(look), lambda row: {"after": views.cursor(row)})


@router.get("/{task_id}", answer=TaskRead)
async def read(services: Services, task_id: str) -> Payload:
    """A task's state, input and result; reading changes nothing."""
    return await services.store.read(views.read, task_id)


@router.get("/{task_id}/detail", answer=TaskDetail)
async def detail(services: Services, task_id: str) -> Payload:
    """Everything about one task: what was submitted, where it worked, what it used, its merge request, its history."""
    now = services.now()

    def look(conn: Connection) -> Payload:
        row = tasks.find(conn, task_id)
        return {
            **views.detail(conn, task_id),
            "delay": app_tasks.delay_of(services, conn, row, now),
        }

    return await services.store.read(look)


@router.post("/claim", answer=Claimed)
async def claim(services: Services, body: Claim) -> Payload:
    """Take the next task that no worker executes; without one, the answer has a ``reason``."""
    return await app_tasks.claim(Actor(services, body.session_id), body.task_types, body.idempotency_key)


@router.post("/{task_id}/complete", answer=Completed, errors=(LeaseLost,))
async def complete(services: Services, task_id: str, body: Completion) -> Payload:
    """End a task that was claimed; only the session that holds it can. The commits in its worktree land."""
    actor = Actor(services, body.session_id)
    return await completion.complete(actor, task_id, **body.fields())


@router.post("/{task_id}/cancel", errors=(Conflict,))
async def cancel(services: Services, task_id: str, body: Cancellation) -> Cancelled:
    """Cancel a task: at once if it waits, within seconds if it runs. What waits for it fails."""
    row = await app_tasks.cancel(services, task_id, reason=body.reason, convention=body.convention)
    children = await services.store.read(unsettled_children, [row["task_id"]])
    dependents = [child["task_id"] for child in children if not child["ignore_dependency_failure"]]
    answer: Cancelled = {"task_id": row["task_id"], "status": TaskStatus(row["status"])}
    if dependents:
        answer["dependents"] = dependents
    return answer


@router.post("/{task_id}/retry", errors=(Conflict,))
async def retry(services: Services, task_id: str) -> TaskState:
    """Run a task again on the present tip; what failed because of it revives."""
    now, rules = services.now(), services.settings().tasks
    row = await services.store.write(_retried, task_id, now, rules)
    services.nudge("supervisor")
    return _state(row)


def _retried(conn: Connection, task_id: str, now: datetime, rules: TaskRules) -> TaskRow:
    row = tasks.retry(conn, task_id, now, rules)
    is_hopeless = row["status"] == TaskStatus.FAILED and row["error_code"] == DEPENDENCY_FAILED
    cause = dependencies.cause_of(conn, row["task_id"], rules.unblock_on) if is_hopeless else None
    if cause is not None:
        raise Conflict(
            f"Task {row['task_id']} cannot run again by itself.",
            cause=str(row["error_message"]),
            remedy=f"Run that one again, and this one follows: corral task retry {cause['task_id'][:8]}",
        )
    return row


@router.post("/{task_id}/attach", scope=MACHINE, errors=OF_A_WORKTREE)
async def attach(services: Services, task_id: str) -> Conversation:
    """Make the last conversation of a task ready to be resumed."""
    trust.refuse(services.settings.untrusted(), trust.CLAUDE_COMMAND)
    deadline = time.monotonic() + GIVEN_BACK_WITHIN_S
    while await services.store.read(reopening.is_being_given_back, task_id):
        if time.monotonic() >= deadline:
            raise Conflict(
                "The worktree of the task is being given back.",
                cause="The task has just ended, and what is in its worktree is being saved.",
                remedy="Try again in a moment.",
            )
        await services.changes.next(0.2)
    command = services.settings().runners.claude.command
    return await services.work(
        lambda: reopening.reopen(services.db, services.git, services.of(Worktrees), task_id, command)
    )


@router.get("/{task_id}/log", scope=MACHINE)
async def log(
    services: Services,
    task_id: str,
    offset: Annotated[int, Field(ge=0, le=FURTHEST)] = 0,
    wait_s: Annotated[float, Field(ge=0, le=30)] = 0,
    attempt: Annotated[int | None, Field(gt=0, le=1_000_000, description="Attempt number (default: the last).")] = None,
    tail: Tail = None,
    readable: Annotated[bool, Field(description="A client's event stream as a person reads it.")] = False,
) -> LogPart:
    """A part of an attempt's output (by default the last attempt's), from ``offset`` on; waits up to ``wait_s`` for more."""
    row = await services.store.read(tasks.find, task_id)
    number = attempt or int(row["fencing_token"])
    if number < 1:
        return LogPart(text="", next_offset=0, complete=False)
    file: Path = services.project.logs_dir / "tasks" / row["task_id"] / f"{number}.log"
    if attempt is not None and not file.exists():
        raise NotFound(
            f"Task {row['task_id']} has no output of an attempt {attempt}.",
            cause="It was not tried as often, or the output was deleted with old data.",
            remedy=f"`corral task detail {row['task_id'][:8]}` lists the attempts.",
        )

    async def running() -> bool:
        current = await services.store.read(tasks.find, row["task_id"])
        return bool(current["status"] == TaskStatus.RUNNING and current["fencing_token"] == number)

    deadline = time.monotonic() + wait_s
    part = await follow(services, file, offset, wait_s, running, tail=tail)
    if readable and await services.store.read(views.writes_events, row["task_id"], number):
        while part.text and not (text := stream.readable(part.text)):  # nothing in it for a person
            part = await follow(services, file, part.next_offset, max(0.0, deadline - time.monotonic()), running)
        part.text = text if part.text else ""
    return part


@router.get("/{task_id}/follow", scope=MACHINE, answer=Followed)
async def followed(
    services: Services,
    task_id: str,
    place: Annotated[str | None, Field(max_length=64, description="`next` of the part before.")] = None,
    wait_s: Annotated[float, Field(ge=0, le=30)] = 0,
) -> Payload:
    """The events and the output of a task in their order, part by part; waits up to ``wait_s`` for more."""
    return await follow_task(services, task_id, Place.read(place), wait_s)


@router.get("/{task_id}/diff", answer=Changes)
async def diff(services: Services, task_id: str, patch: WithPatch = True) -> Payload:
    """The changes of a task, while it runs with its uncommitted files; without ``patch`` only the numbers of lines."""
    most = diffs.MOST_SHOWN if patch else None
    return await services.work(lambda: diffs.of_task(services, task_id, most=most))


@router.post("/{task_id}/reprioritize", errors=(Conflict,))
async def reprioritize(services: Services, task_id: str, body: NewPriority) -> Reprioritized:
    """Give a task that has not begun another priority, 0 to 10."""
    priority = body.get("priority")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise InvalidInput("`priority` must be a whole number from 0 to 10.")
    now = services.now()
    row = await services.store.write(tasks.reprioritize, task_id, priority, now)
    services.nudge("supervisor")
    return {"task_id": row["task_id"], "priority": row["priority"]}


@router.post("/{task_id}/feedback")
async def feedback(services: Services, task_id: str, body: Opinion) -> Feedback:
    """Keep what a person thinks of a task's work; it counts for the agent that did it, and replaces what was said before."""
    now = services.now()
    return await services.store.write(record.give_feedback, task_id, body.rating, body.comment, now)
