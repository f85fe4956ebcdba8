"""The dead-letter queue over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.services import Services
from corral.core.errors import Conflict, InvalidInput, NotFound
from corral.core.pages import MOST, Page, answer, page
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, PROJECT, Routes
from corral.work.dead_letters import dead_letters
from corral.work.dead_letters.api import Acted, DeadTask, DeadTaskChoice, DeadTaskFacts
from corral.work.logtail import last_lines

router = Routes("tasks", "/dead-letters", scope=PROJECT, callers=EVERYONE)

_AT_ONCE = 100
"""Tasks that one transaction retries or clears of all, so that other writers come in between."""


@router.get("", answer=list[DeadTask])
async def listing(
    services: Services,
    request: Request,
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[str | None, Field(max_length=64, description="The id of the last one known.")] = None,
) -> Response:
    """Tasks that are out of retries, the oldest first."""

    def look(conn: Connection) -> Page:
        return page(dead_letters.listing(conn, after=after, limit=limit), limit)

    return answer(request, await services.store.read(look), lambda row: {"after": row["task_id"]})


@router.get("/{task_id}", answer=DeadTaskFacts, errors=(Conflict,))
async def read(services: Services, task_id: str) -> Payload:
    """Everything about a dead task, with the end of its last attempt's output."""
    task = await services.store.read(dead_letters.read, task_id)
    attempts = task["attempt_history"]
    number = attempts[-1]["number"] if attempts else 0
    file = services.project.logs_dir / "tasks" / task["task_id"] / f"{number}.log"
    return {**task, "log_tail": await services.work(lambda: last_lines(file))}


@router.post("/retry", errors=(NotFound, Conflict))
async def retry(services: Services, body: DeadTaskChoice) -> Acted:
    """Run dead tasks again with all their retries."""
    now, rules = services.now(), services.settings().tasks
    ids = await _each(services, body, lambda conn, ids: dead_letters.retry(conn, ids, now, rules))
    services.nudge("supervisor")
    return {"task_ids": ids}


@router.post("/clear", errors=(NotFound, Conflict))
async def clear(services: Services, body: DeadTaskChoice) -> Acted:
    """Take tasks out of the dead-letter queue; they stay in the list of tasks."""
    now = services.now()
    return {"task_ids": await _each(services, body, lambda conn, ids: dead_letters.clear(conn, ids, now))}


async def _each(
    services: Services, choice: DeadTaskChoice, act: Callable[[Connection, Sequence[str]], list[str]]
) -> list[str]:
    if choice.all == bool(choice.task_ids):
        raise InvalidInput("Give `task_ids`, or `all`.", remedy="Name the tasks, or ask for all of them.")
    if not choice.all:
        return await services.store.write(act, choice.task_ids)
    acted: list[str] = []
    present = await services.store.read(dead_letters.listing)
    ids = [row["task_id"] for row in present]
    for start in range(0, len(ids), _AT_ONCE):
        batch = set(ids[start : start + _AT_ONCE])

        def of_these(conn: Connection, batch: set[str] = batch) -> list[str]:
            still = [row["task_id"] for row in dead_letters.listing(conn) if row["task_id"] in batch]
            return act(conn, still)

        acted += await services.store.write(of_these)
    return acted
