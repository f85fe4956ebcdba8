"""A conversation that a worker had, made ready for a person to go on with: its id, and the worktree it belongs to.

The client keeps conversations by the folder that they took place in, so a worktree that is gone is made again in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from corral.coordination.sessions.store import sessions
from corral.core.errors import Conflict, InvalidInput
from corral.core.states import RunnerName, SessionStatus, TaskStatus, WorktreeState
from corral.git import refs
from corral.git.process.command import Git
from corral.store.protocol import Store
from corral.store.rows.tasks import AttemptRow, WorktreeRow
from corral.work.tasks import tasks
from corral.work.tasks.api import Conversation
from corral.work.tasks.store import attempts
from corral.work.worktrees import store as worktrees
from corral.work.worktrees.worktrees import Worktrees


def reopen(db: Store, repo: Git, trees: Worktrees, task_id: str, command: str) -> Conversation:
    """Find the last conversation of a task, and make its worktree again, at its branch, where that is gone.

    Raises:
        NotFound: No such task, or nothing is left of its work.
        InvalidInput: No client worked on it.
        Conflict: The worker is running, or somebody has the conversation open.
    """
    with db.reading() as conn:
        task = tasks.find(conn, task_id)
        attempts_made = attempts.of_task(conn, task["task_id"])
    conversations = [
        attempt
        for attempt in attempts_made
        if attempt["runner"] == RunnerName.CLAUDE and attempt["worktree_id"] is not None
    ]
    if not conversations:
        raise InvalidInput(
            f"Task {task['task_id']} has no conversation to resume.",
            cause="No Claude Code client has worked on it yet.",
            remedy="`corral task logs ID` shows what its worker printed.",
        )
    last = conversations[-1]
    if task["status"] == TaskStatus.RUNNING:
        raise Conflict(
            f"The worker of task {task['task_id']} is running.",
            cause="Two clients in one conversation would overwrite each other's part of it.",
            remedy="Write to it (`corral message send`), or end it first (`corral task cancel ID`).",
        )
    with db.reading() as conn:
        _require_unused(conn, last)
        place = worktrees.get(conn, str(last["worktree_id"]))
        assert place is not None  # a row outlives its folder
        name = place["name"]
        live = worktrees.live_by_name(conn, name)
    own = live if live is not None and live["state"] == WorktreeState.READY and trees.is_own(name) else None
    worktree: Mapping[str, Any] = own or trees.create(name, session_id=None, base=_base_of(repo, last, place))
    return {
        "task_id": task["task_id"],
        "attempt": last["number"],
        "session_id": last["session_id"],
        "worktree": worktree["path"],
        "branch": worktree["branch"],
        "created": own is None,
        "command": command,
    }


def is_being_given_back(conn: Connection, task_id: str) -> bool:
    """Whether the worktree of a task's last attempt is about to go, as it is just after the task has ended."""
    tried = attempts.of_task(conn, tasks.find(conn, task_id)["task_id"])
    place = worktrees.get(conn, tried[-1]["worktree_id"]) if tried and tried[-1]["worktree_id"] else None
    return place is not None and place["state"] == WorktreeState.RECLAIMING


def _require_unused(conn: Connection, attempt: AttemptRow) -> None:
    session = sessions.get(conn, attempt["session_id"])
    if session is not None and session["status"] != SessionStatus.DISCONNECTED:
        process = f" (process {session['client_pid']})" if session["client_pid"] is not None else ""
        raise Conflict(
            f"The conversation of {session['agent_name']} is open already.",
            cause=f"A client runs it{process}.",
            remedy="Go on there, or end that session first: `corral session end NAME`.",
        )


def _base_of(repo: Git, attempt: AttemptRow, place: WorktreeRow) -> str:
    """The commit that the conversation's work ended at: its branch, else what its attempt handed in, else where it began."""
    branch = refs.read(repo, refs.branch_ref(place["branch"])) if place["branch"] else None
    head = attempt["head_sha"]
    return branch or (head if head and refs.exists(repo, head) else place["base_sha"])
