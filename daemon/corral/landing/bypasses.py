"""Commits of workers that reached a target past the queue: nothing verified them, and a person is told whose they are."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from corral.core.events import EventKind, payload
from corral.core.logs import logger
from corral.core.states import WorktreePurpose, WorktreeState
from corral.core.visible import one_line
from corral.git import refs
from corral.git.checkouts import head_log, listing
from corral.git.checkouts.identity import real_place
from corral.git.process.command import Git
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows.tasks import WorktreeRow
from corral.work.tasks.store import lists
from corral.work.worktrees import store as worktree_rows

MOST_LOOKED_AT = 200
"""New commits of a target whose origin is looked for, the newest first."""

log = logger("landing")


def record(db: Store, repo: Git, target: str, before: str, tip: str, now: datetime) -> None:
    """Record, by task, which new commits of a target were made in a worker's worktree and did not come through the queue.

    Args:
        target: Short name.
        before: A commit of the target's of which everything is known.
        tip: The target's commit.

    Raises:
        GitFailed: The repository could not be read.
    """
    for row, commits in made_by_tasks(db, repo, before, tip):
        db.write(_store, target, row, commits, now)


def made_by_tasks(db: Store, repo: Git, before: str, tip: str) -> list[tuple[WorktreeRow, list[str]]]:
    """The worktrees of tasks in which commits between two tips were made, each with these, the newest first.

    Raises:
        GitFailed: The repository could not be read.
    """
    shas = repo.must("rev-list", f"--max-count={MOST_LOOKED_AT}", refs.oid(tip), f"^{refs.oid(before)}").split()
    made = []
    for row in db.read(_of_tasks) if shas else ():
        made_there = _commits_made_in(repo, row) if row["task_id"] is not None else set[str]()
        # One of the warm pool has the log of earlier tasks too.
        if commits := [sha for sha in shas if sha in made_there and refs.is_ancestor(repo, row["base_sha"], sha)]:
            made.append((row, commits))
    return made


def _of_tasks(conn: Connection) -> list[WorktreeRow]:
    states = (WorktreeState.READY, WorktreeState.RECLAIMING)
    return worktree_rows.listing(conn, states=states, purposes=(WorktreePurpose.TASK,))


def _commits_made_in(repo: Git, row: WorktreeRow) -> set[str]:
    """The commits that were made in a worktree; what was only merged or checked out there was made by others."""
    folder = real_place(Path(row["path"]))
    admin = next((path for path in listing.admin_dirs(repo) if real_place(listing.folder_of(path)) == folder), None)
    return {step.sha for step in head_log.steps(Git(admin)) if step.is_made} if admin is not None else set()


def _store(conn: Connection, target: str, row: WorktreeRow, commits: list[str], now: datetime) -> None:
    task_id = str(row["task_id"])
    last = events.newest_of(conn, EventKind.TARGET_BYPASSED)
    recorded = payload(last, EventKind.TARGET_BYPASSED) if last is not None and last["task_id"] == task_id else None
    if recorded is not None and set(commits[:20]) <= set(recorded["commits"]):
        return  # recorded before the daemon was started again
    title = one_line(lists.titles(conn, [task_id]).get(task_id, row["name"]))
    number = f"{len(commits)} commits" if len(commits) > 1 else f"commit {commits[0][:12]}"
    reason = (
        f"it has {number} from the worktree of task {task_id[:8]} ({title!r}), past the queue: nothing verified that"
    )
    log.warning("target_bypassed", target=target, task_id=task_id, commits=commits[:20], reason=reason)
    event = EventKind.TARGET_BYPASSED({"target": target, "commits": commits[:20], "reason": reason})
    events.record(conn, now, event, task_id=task_id)
