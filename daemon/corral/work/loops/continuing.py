"""Before an iteration: the worktree that it goes on in, and its feedback."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Connection

from corral.config.links import make_own_folder
from corral.core.errors import CorralError, GitFailed
from corral.core.logs import logger
from corral.core.states import TERMINAL_TASKS, WorktreePurpose, WorktreeState
from corral.git.checkouts import staging, status
from corral.git.process.command import Git
from corral.runners.process import open_private
from corral.store.rows.tasks import TaskRow, WorktreeRow
from corral.work.loops import conversations
from corral.work.loops.conversations import Thread
from corral.work.loops.history import Past, bounds, feedback
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import tasks
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.allocation import WorktreeContext, roll_back
from corral.work.worktrees.provision import Provisioned

log = logger("loops")


def kept_worktree(context: WorktreeContext, task: TaskRow, past: Past | None) -> tuple[WorktreeRow, Provisioned] | None:
    """The worktree of the former iterations, if nothing in it has changed since; else None, and what was kept is given back."""
    worktree_id = context.kept.pop(task["task_id"], None)
    row = worktree_id and context.db.read(lambda conn: worktree_rows.get(conn, worktree_id))
    if not row or row["state"] != WorktreeState.READY:
        return None
    try:
        provided = Provisioned(**row["provision"])
        if (
            past is not None
            and past.checkpoint is not None
            and _is_at(ownership.prove(context, row), past.checkpoint["head_sha"], provided)
        ):
            return row, provided
    except CorralError as error:
        log.warning("worktree_not_continued", task_id=task["task_id"], worktree=row["name"], reason=error.message)
    roll_back(context, row)
    return None


def _is_at(checkout: Git, head: str, provided: Provisioned) -> bool:
    """Whether HEAD is at this commit and nothing is uncommitted: later changes are the work of no iteration."""
    return checkout.head() == head and not staging.committable(status.changes(checkout), provided.exclude)


def go_on_in(conn: Connection, worktree: WorktreeRow, session_id: str | None) -> WorktreeRow:
    """Give the worktree to the session of the next iteration."""
    row = worktree_rows.transition(
        conn, worktree["worktree_id"], (WorktreeState.READY,), {"session_id": session_id, "note": None}
    )
    if row is None:
        raise GitFailed(f"The worktree {worktree['name']} is being removed.")
    return row


def keep(context: WorktreeContext, task: TaskRow, worktree: WorktreeRow) -> None:
    """Keep a worktree for the next iteration, as long as this daemon lives."""
    context.kept[task["task_id"]] = worktree["worktree_id"]


def forsaken(context: WorktreeContext, conn: Connection) -> list[WorktreeRow]:
    """The kept worktrees whose task has ended, and will have no next iteration."""
    ended = [task_id for task_id in list(context.kept) if _has_ended(conn, task_id)]
    ids = [worktree_id for task_id in ended if (worktree_id := context.kept.pop(task_id, None)) is not None]
    rows = worktree_rows.listing(conn, states=(WorktreeState.READY,), purposes=(WorktreePurpose.TASK,)) if ids else []
    return [row for row in rows if row["worktree_id"] in ids]


def _has_ended(conn: Connection, task_id: str) -> bool:
    row = tasks.get(conn, task_id)
    return row is None or row["status"] in TERMINAL_TASKS


def thread_of(context: WorktreeContext, task: TaskRow, past: Past) -> tuple[Thread, tuple[str | None, str | None]]:
    """The conversation of a task's current attempt, and who holds it: a runner and an agent."""
    with context.db.reading() as conn:
        rows = attempt_rows.of_task(conn, task["task_id"])
    holder = next(
        ((row["runner"], row["agent"]) for row in rows if row["number"] == task["fencing_token"]), (None, None)
    )
    folder = context.project.logs_dir / "tasks" / task["task_id"]
    return conversations.thread(past, rows, task["fencing_token"], holder, folder), holder


def last_evaluation(
    context: WorktreeContext, task: TaskRow, past: Past, worktree: Path, thread: Thread
) -> tuple[str, dict[str, str]]:
    """The last evaluation: as text for a prompt, and as variables for a command.

    Args:
        thread: The conversation that gets it.
    """
    text = feedback(past, bounds(context.settings().loops, past.spec))
    text = "\n\n".join(part for part in (conversations.introduction(thread, worktree), text) if part)
    folder = make_own_folder(context.project.logs_dir / "tasks" / task["task_id"], context.project.root)
    file = folder / f"{task['fencing_token']}.feedback.txt"
    with os.fdopen(open_private(file, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as output:
        output.write(f"{text}\n" if text else "")
    return text, {"CORRAL_ITERATION": str(past.next_iteration), "CORRAL_FEEDBACK_FILE": str(file)}


def time_left_s(context: WorktreeContext, past: Past | None, own_s: float | None) -> float | None:
    """The time limit of an attempt: its task's own, and what is left of its loop's."""
    if past is None:
        return own_s
    left_s = max(1.0, bounds(context.settings().loops, past.spec).timeout_s - past.elapsed_s)
    return left_s if own_s is None else min(own_s, left_s)
