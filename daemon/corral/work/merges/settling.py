"""Merge requests: a branch is put into the queue of its target; what the end of a request means for its task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.coordination.settings import SettingsHolder
from corral.core.outcomes import Outcome
from corral.store.rows.merges import MergeRow
from corral.work.merges import requests
from corral.work.merges import wire as merge_shapes
from corral.work.tasks import dependencies, stacking, tasks

OnSettled = Callable[[Connection, MergeRow, datetime], None]
"""Told, in the transaction in which a request ends, so that those who depend on it move with it."""


async def submit(
    services: Services,
    branch: str,
    target: str | None,
    *,
    session_id: str | None,
    task_id: str | None,
    title: str | None = None,
) -> dict[str, Any]:
    """Put a branch into the queue; ``merge_id`` is null if the target has everything of it already.

    Args:
        target: None: where work lands by the settings.
        session_id: The session that asks, if one does.
        task_id: Whose work the branch is, or the beginning of its id; None: the branch or the session tells.

    Raises:
        NotFound: No such branch, target or task.
        InvalidInput: A name that is none, or whose work it is is not clear.
    """
    now = services.now()
    onto = target or services.settings.target().removeprefix("refs/heads/")
    owner = await services.store.read(lambda conn: tasks.find(conn, task_id)["task_id"]) if task_id else None
    row = await services.work(
        lambda: requests.submit(
            services.db,
            services.git,
            branch=branch,
            target=onto,
            now=now,
            title=title,
            session_id=session_id,
            task_id=owner,
        )
    )
    if row is None:
        return {"merge_id": None, "branch": branch, "target": onto, "state": None}
    services.nudge("landing")
    return merge_shapes.summary(row)


def merge_settled(settings: SettingsHolder) -> OnSettled:
    """The effect on its task of a merge request's end, of its return to the queue, and of the loss of what had landed:
    dependents become ready, fail or wait."""

    def settled(conn: Connection, merge: MergeRow, at: datetime) -> None:
        if (task_id := merge["task_id"]) is None:
            return
        stacking.tell(conn, merge, at)
        if merge_shapes.standing_of(merge) == Outcome.MISSING:
            dependencies.hold_back(conn, [task_id], at, unblock_on=settings().tasks.unblock_on)
        else:
            tasks.merge_settled(conn, task_id, at, unblock_on=settings().tasks.unblock_on)

    return settled
