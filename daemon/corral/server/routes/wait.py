"""Waiting until work is settled: completed and landed, or failed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Connection

from corral.models.states import OPEN_MERGES, TERMINAL_TASKS, MergeState, TaskStatus
from corral.server.routing import Routes
from corral.server.services import Services
from corral.store import merges
from corral.store import tasks as task_rows
from corral.work import tasks

router = Routes("tasks")

Row = dict[str, Any]


def snapshot(conn: Connection, task_ids: list[str], merge_ids: list[str]) -> Row:
    """Where the named tasks and merge requests stand, and whether anything may still happen to them by itself.

    Returns:
        ``tasks`` and ``merges`` as ``corral wait`` prints them, ``settled``, and ``done``: all landed or had nothing to land.
    """
    standing = task_rows.standing(conn, task_ids) if task_ids else []
    found = [merges.get(conn, merge_id) for merge_id in merge_ids]
    open_merges = set(OPEN_MERGES)
    settled = all(
        row["status"] in TERMINAL_TASKS and (row["merge_state"] is None or row["merge_state"] not in open_merges)
        for row in standing
    ) and all(row["state"] not in open_merges for row in found)
    done = all(
        row["status"] == TaskStatus.COMPLETED and row["merge_state"] in (None, MergeState.LANDED) for row in standing
    ) and all(row["state"] == MergeState.LANDED for row in found)
    return {
        "tasks": [{key: row[key] for key in ("task_id", "status", "merge_state")} for row in standing],
        "merges": [{"merge_id": row["merge_id"], "state": row["state"]} for row in found],
        "settled": settled,
        "done": done,
    }


def open_work(conn: Connection) -> tuple[list[str], list[str]]:
    """The ids of every task and merge request to which something may still happen."""
    waiting = [row["task_id"] for row in task_rows.standing(conn, only_open=True)]
    pending = [row["merge_id"] for row in merges.listing(conn, OPEN_MERGES)]
    return waiting, pending


@router.get("/wait")
async def wait(
    services: Services,
    task: Sequence[str] = (),
    merge: Sequence[str] = (),
    everything: Annotated[bool, Field(alias="all")] = False,
    timeout_s: Annotated[float, Field(ge=0, le=25)] = 25,
) -> dict[str, Any]:
    """Answer when all that was named is settled, or when the time is over; ask again with the ids of the answer."""
    task_ids, merge_ids = list(task), list(merge)
    if everything:
        more_tasks, more_merges = await services.read(open_work)
        task_ids += [one for one in more_tasks if one not in task_ids]
        merge_ids += [one for one in more_merges if one not in merge_ids]
    if task:
        task_ids = await services.read(lambda conn: [tasks.find(conn, one)["task_id"] for one in task_ids])
    deadline = time.monotonic() + timeout_s
    while True:
        answer = await services.read(lambda conn: snapshot(conn, task_ids, merge_ids))
        left = deadline - time.monotonic()
        if answer["settled"] or left <= 0 or services.stopping:
            return answer
        await services.next_change(min(left, 1.0))
