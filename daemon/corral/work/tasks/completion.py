"""Completing a claimed task: the commits of its session are submitted to land, so that dependents start with them.

Only the branch that Corral created for the session counts, in the worktree where it is now. It submits other branches itself.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.coordination.locks.table import Holder
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.payload import Payload
from corral.git.checkouts.status import changes
from corral.git.process.command import open_checkout
from corral.store.rows.tasks import WorktreePlace
from corral.work.merges import settling
from corral.work.tasks import leases
from corral.work.tasks.store import tasks
from corral.work.tasks.tasks import find
from corral.work.worktrees import store as worktrees

MOST_NAMED = 20
"""Uncommitted paths that an answer names."""


async def complete(actor: Actor, task_id: str, **outcome: Any) -> Payload:
    """End a claimed task as its holder reports; if it succeeded, submit the commits of its session to the queue first.

    Args:
        actor: The session that completes it.
        outcome: The keyword arguments of :func:`corral.work.tasks.leases.complete`.

    Returns:
        A :class:`corral.work.tasks.api.Completed`.

    Raises:
        NotFound: No such task.
        LeaseLost: The session does not hold it.
        CorralError: Its branch could not be submitted; the task is not ended.
    """
    services = actor.services
    now, rules = services.now(), services.settings().tasks
    place: WorktreePlace | None = None
    frees = False

    def look_or_end(conn: Connection, me: Holder) -> Payload:
        nonlocal place, frees
        holders = (me.session_id, *me.kin)
        task = find(conn, task_id)
        if outcome["success"] and place is None and leases.holds(task, holders):
            place = worktrees.worked_in(conn, holders)
            if place is not None:
                return {**place, "task_id": task["task_id"], "session_id": me.session_id}
        row = leases.complete(conn, task, holders, now, rules, **outcome)
        frees = tasks.may_free_others(conn, row["task_id"])
        return {"task_id": row["task_id"], "status": row["status"]}

    row, submitted = await actor.write(look_or_end), {}
    if place is not None:  # rare, so a second transaction is cheap: git runs between the two
        submitted = await services.work(partial(_submit_branch, services, row))
        row = await actor.write(look_or_end)
    if frees:
        services.nudge("supervisor")
    else:  # no other task can start because of it
        services.nudges.soon("supervisor")
        services.nudge("announcements")
    if submitted.get("merge_id"):
        services.nudge("landing")
    return {"success": True, "status": row["status"], "task_id": row["task_id"], **submitted}


def _submit_branch(services: Services, place: Payload) -> Payload:
    """Submit the commits on the branch of a worktree; nothing where another branch is checked out."""
    checkout = open_checkout(Path(place["path"]))
    if checkout.branch() != f"refs/heads/{place['branch']}":
        return {}
    merge = settling.enqueue(
        services.db,
        services.git,
        branch=place["branch"],
        target=services.settings.target(),
        now=services.now(),
        session_id=place["session_id"],
        task_id=place["task_id"],
    )
    uncommitted = [change.path for change in changes(checkout)][:MOST_NAMED]
    return {
        **({"merge_id": merge["merge_id"]} if merge is not None else {}),
        **({"uncommitted": uncommitted} if uncommitted else {}),
    }
