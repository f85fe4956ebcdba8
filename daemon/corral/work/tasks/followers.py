"""Leaders and followers: a task can be led by another one, whose agent submitted it, and ends with it.

A leader answers for its followers: those that have not ended when it ends, however it ends, are cancelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from corral.config.sections.work import Tasks as TaskRules
from corral.core.errors import Conflict, InvalidInput
from corral.core.states import TERMINAL_TASKS
from corral.store.rows.tasks import StoredTask
from corral.work.tasks import tasks
from corral.work.tasks.store import family
from corral.work.tasks.store import tasks as task_rows


def task_of(conn: Connection, session_id: str | None) -> str:
    """The task that a session works on: it leads what the session submits as a follower.

    Raises:
        InvalidInput: It works on no task, or on several.
    """
    mine = task_rows.held_by(conn, [session_id] if session_id else [])
    if len(mine) != 1:
        raise InvalidInput(
            "You work on no task." if not mine else "You work on several tasks.",
            cause="Nothing says which task is meant.",
            remedy="Name the task: `task_id`, or `corral task submit --parent ID`.",
        )
    return mine[0]["task_id"]


def leader(conn: Connection, name: str, max_depth: int, *, levels: int = 1) -> str:
    """The id of the task that shall lead a new one.

    Args:
        name: Its id, the beginning of that, or its number.
        max_depth: Levels of agents, the first leader included.
        levels: Those of the new task: 2 where it has steps.

    Raises:
        NotFound: No such task.
        Conflict: It has ended.
        InvalidInput: The new task would be led over too many levels.
    """
    row = tasks.find(conn, name)
    if row["status"] in TERMINAL_TASKS:
        raise Conflict(
            f"Task {row['task_id']} is {row['status']}: it leads nobody any more.",
            cause="A follower ends with its leader.",
            remedy="Submit the task without --parent.",
        )
    depth = 1 + len(family.ancestors(conn, row["task_id"]))
    if depth + levels > max_depth:
        raise too_deep(f"A follower of task {row['task_id'][:8]}", depth + levels, max_depth)
    return row["task_id"]


def too_deep(subject: str, depth: int, max_depth: int) -> InvalidInput:
    """The error for a task that would be led over too many levels."""
    return InvalidInput(
        f"{subject} would be {depth} levels deep; {max_depth} are allowed.",
        cause="`supervisor.max_depth` keeps agents from starting agents without end.",
        remedy="Do the work in this task, or submit it without --parent.",
    )


def end(conn: Connection, rows: Sequence[StoredTask], now: datetime, rules: TaskRules) -> None:
    """Cancel these tasks, because their leader has ended."""
    for row in rows:
        reason = f"Its leader, task {(row['parent_task_id'] or '')[:8]}, has ended."
        tasks.cancel(conn, row["task_id"], now, rules, reason=reason)
