"""Waiting until work is settled: completed and landed, or failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.errors import NotFound
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, Called, Routes
from corral.core.states import OPEN_MERGES, TERMINAL_TASKS, MergeState, TaskStatus
from corral.landing.pauses import explained
from corral.observe.view.needs_you import needs_you_for
from corral.observe.wait.api import WaitAnswer
from corral.observe.wait.waits import PersonalWaits
from corral.work.merges.store import merges, of_tasks, pauses
from corral.work.merges.wire import outcome_of, standing_of
from corral.work.tasks import submitting as app_tasks
from corral.work.tasks import tasks
from corral.work.tasks.store import outcomes
from corral.work.tasks.store import tasks as task_rows

router = Routes("tasks", callers=EVERYONE)

MOST_EXPLAINED = 200
"""Tasks in an answer that say what became of them, and why."""

MOST_DELAYED = 50
"""Tasks in an answer that say why they do not start."""

LOOK_EVERY_S = 1.0
"""Seconds between two looks while no change was announced."""

REST = 4.0
"""The pause after a look, as a multiple of its duration: thousands of tasks change all the time."""


def snapshot(conn: Connection, task_ids: list[str], merge_ids: list[str], default_target: str) -> Payload:
    """Where the named tasks and merge requests stand, and whether anything may still happen to them by itself.

    Returns:
        ``tasks`` and ``merges`` as ``corral wait`` prints them, each with the ``reason`` why it has not landed where one is
        known; ``settled``, ``done`` (all landed or had nothing to land), and ``paused``: those of their targets where nothing
        lands at present, with the reason.
    """
    standing = task_rows.standing(conn, task_ids) if task_ids else []
    requests = [merges.get(conn, merge_id) for merge_id in merge_ids]
    statuses = {row["status"] for row in standing}
    states = {standing_of(row) for row in requests} | {row["merge_state"] for row in standing} - {None}
    waiting = [row["merge_id"] for row in (*standing, *requests) if row["merge_id"] is not None][:MOST_EXPLAINED]
    why = _reasons(conn, waiting)
    targets = {row["target"] or default_target for row in (*standing, *requests)}
    outcome = outcomes.of_tasks(conn, [row["task_id"] for row in standing[:MOST_EXPLAINED]])
    return {
        "tasks": [
            {
                **{key: row[key] for key in ("task_id", "title", "status", "merge_state", "merge_id")},
                "number": row["seq"],
                "outcome": outcome.get(row["task_id"], row["status"]),
                **why.get(row["merge_id"] or "", {}),
            }
            for row in standing
        ],
        "merges": [
            {
                **{key: row[key] for key in ("merge_id", "title")},
                "state": standing_of(row),
                "outcome": outcome_of(row),
                **why.get(row["merge_id"], {}),
            }
            for row in requests
        ],
        "settled": statuses <= {*TERMINAL_TASKS} and states.isdisjoint(OPEN_MERGES),
        "done": statuses <= {TaskStatus.COMPLETED} and states <= {MergeState.LANDED},
        "paused": [
            {"target": target, "reason": row["reason"], "look_at": row["look_at"]}
            for target, row in pauses.paused(conn).items()
            if target in targets
        ],
        "targets": targets,
    }


def _reasons(conn: Connection, merge_ids: list[str]) -> dict[str, Payload]:
    """Why requests have not landed: ``{"reason": …}`` by id, for those of which something is known."""
    rows = [row for merge_id in dict.fromkeys(merge_ids) if (row := merges.find(conn, merge_id)) is not None]
    shown = [row for row in explained(conn, rows) if row["reason"] and standing_of(row) != MergeState.LANDED]
    return {row["merge_id"]: {"reason": row["reason"]} for row in shown}


def open_work(conn: Connection) -> tuple[list[str], list[str]]:
    """The ids of every open task and merge request, and of every failed one that nobody has settled.

    So the answer is the same whether something failed before the question or after it.
    """
    returned = outcomes.open_requests(conn, without_task=True)
    pending = {row["merge_id"]: None for row in (*merges.listing(conn, OPEN_MERGES), *returned)}
    return outcomes.open_tasks(conn), list(pending)


def _look(services: Services, conn: Connection, task_ids: list[str], merge_ids: list[str], watched_s: float) -> Payload:
    """The snapshot, with ``delay`` for each task that something keeps from starting or a person has, and ``waits_for_person``."""
    answer = snapshot(conn, task_ids, merge_ids, services.settings.target().removeprefix("refs/heads/"))
    now = services.now()
    delayed = [row for row in answer["tasks"] if row["status"] in (TaskStatus.PENDING, TaskStatus.WAITING)]
    delayed += [row for row in answer["tasks"] if row["status"] == TaskStatus.RUNNING]
    for row in delayed[:MOST_DELAYED]:
        task = task_rows.get(conn, row["task_id"])
        if task and (text := app_tasks.delay_of(services, conn, task, now)):
            row["delay"] = text
    waits, left = PersonalWaits(services, conn, now, timedelta(seconds=watched_s)), _left(answer)
    has = (
        waits.has_task(row["task_id"]) if "task_id" in row else waits.has_request(merges.get(conn, row["merge_id"]))
        for row in left
    )
    answer["waits_for_person"] = bool(left) and all(has)
    return answer


def _left(answer: Payload) -> list[Payload]:
    """The tasks and merge requests that have not ended."""
    open_tasks = [
        row for row in answer["tasks"] if row["status"] not in TERMINAL_TASKS or row["merge_state"] in OPEN_MERGES
    ]
    return [*open_tasks, *(row for row in answer["merges"] if row["state"] in OPEN_MERGES)]


def _with_needs(services: Services, conn: Connection, answer: Payload) -> Payload:
    """The answer, with the entries of needs_you that block its unfinished tasks and merge requests, or what these wait for."""
    undone = [row for row in answer["tasks"] if row["merge_state"] != MergeState.LANDED]
    undone += [row for row in answer["merges"] if row["state"] != MergeState.LANDED]
    waits, targets = PersonalWaits(services, conn, services.now()), answer.pop("targets")
    for row in answer["tasks"][:MOST_EXPLAINED]:
        if row["status"] == TaskStatus.WAITING:
            waits.has_task(row["task_id"])
    ids = {row[key] for row in undone for key in ("task_id", "merge_id") if row.get(key)} | waits.behind
    return {**answer, "needs_you": [] if answer["done"] else needs_you_for(services, conn, ids, targets)}


def _named(conn: Connection, references: list[str]) -> tuple[list[str], list[str]]:
    """The ids of the tasks, and of the merge requests without a task, that texts name."""
    task_ids, merge_ids = list[str](), list[str]()
    for reference in references:
        try:
            task_ids.append(tasks.find(conn, reference)["task_id"])
        except NotFound as unknown:
            try:
                merge_ids.append(of_tasks.named(conn, reference)["merge_id"])
            except NotFound:
                raise unknown from None
    return task_ids, merge_ids


@router.get("/wait", answer=WaitAnswer)
async def wait(
    services: Services,
    task: Sequence[str] = (),
    merge: Sequence[str] = (),
    everything: Annotated[bool, Called("all")] = False,
    timeout_s: Annotated[float, Field(ge=0, le=25)] = 25,
) -> Payload:
    """Answer when all that was named is settled, when the rest waits for a person, or after the time-out.

    Ask again with the ids of the answer.
    """
    task_ids, merge_ids = list(task), list(merge)
    if everything:
        more_tasks, more_merges = await services.store.read(open_work)
        task_ids += [task_id for task_id in more_tasks if task_id not in task_ids]
        merge_ids += [merge_id for merge_id in more_merges if merge_id not in merge_ids]
    if task:
        task_ids, others = await services.store.read(lambda conn: _named(conn, task_ids))
        merge_ids += [merge_id for merge_id in others if merge_id not in merge_ids]
    start = time.monotonic()
    deadline = start + timeout_s
    services.nudge("landing")  # what held a request may be gone
    while True:
        began = time.monotonic()
        change = asyncio.create_task(
            services.changes.next(LOOK_EVERY_S)
        )  # before the look, so that no change is missed
        look = partial(_look, services, task_ids=task_ids, merge_ids=merge_ids, watched_s=began - start)
        answer = await services.store.read(look)
        took, remaining_s = time.monotonic() - began, deadline - time.monotonic()
        if answer["settled"] or answer["waits_for_person"] or remaining_s <= 0 or services.stopping:
            change.cancel()
            return await services.store.read(lambda conn: _with_needs(services, conn, answer))  # noqa: B023 - run at once
        await asyncio.sleep(min(remaining_s, took * REST))
        await asyncio.wait((change,), timeout=remaining_s)
        change.cancel()
