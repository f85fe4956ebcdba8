"""Programs outside the screen: a shell or an editor in a worktree, and a conversation that is resumed."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from corral.client.connection import Client, segment
from corral.core.errors import NotFound, RunnerUnavailable
from corral.core.states import RunnerName
from corral.faces.cli.terminal.worktree_shell import RETURNED, Place, open_request
from corral.faces.screen.actions import RowSubject
from corral.faces.screen.text import Row

ATTACH_S = 180.0
"""For the worktree of a conversation to be made again, seconds."""


def find_place(client: Client, subject: RowSubject) -> Place:
    """The worktree that belongs to a row; for a merge request without one, a new one at its head.

    Raises:
        NotFound: The row has no worktree, and none can be made for it.
    """
    request = _request_of(client, subject)
    if request is not None and request["state"] in RETURNED:
        return open_request(client, request)
    if subject.worktree_id is not None:
        for row in client.listing("/worktrees"):
            if row["worktree_id"] == subject.worktree_id:
                return Place(row["path"], row["branch"])
    if subject.task_id is not None:
        task = client.request("GET", f"/tasks/{segment(subject.task_id)}/detail")
        if task["worktree"] and Path(task["worktree"]).is_dir():
            return Place(task["worktree"], task["branch"], request)
    if subject.session_id is not None:
        session = client.request("GET", f"/sessions/{segment(subject.session_id)}")
        if session["worktree"] and Path(session["worktree"]).is_dir():
            return Place(session["worktree"], session["branch"])
    if request is None:
        raise NotFound(
            f"{subject.title[:60]!r} has no worktree.",
            cause="It has not started yet, or its worktree was given back.",
            remedy="A task has one while it runs.",
        )
    return open_request(client, request)


def _request_of(client: Client, subject: RowSubject) -> Row | None:
    if subject.merge is None:
        return None
    try:
        request: Row = client.request("GET", f"/merges/{segment(subject.merge)}")
    except NotFound:
        return None
    return request


@dataclass(frozen=True)
class Conversation:
    """A conversation with Claude Code that a row is about.

    Attributes:
        line: The command line that resumes it, for a person to type.
        is_alive: Whether its session has not ended, so that it is in another terminal or a worker's.
        folder: Where its session worked.
        task_id: The task whose last conversation it is; None: of no task.
    """

    session_id: str
    agent_name: str
    line: str
    is_alive: bool
    folder: str | None
    task_id: str | None = None


def find_conversation(client: Client, subject: RowSubject) -> Conversation:
    """The conversation of a session, or the last one of a task; looking makes no worktree.

    Raises:
        NotFound: No Claude Code client has worked on it.
    """
    session_id, last, number = subject.session_id, None, None
    if subject.task_id is not None:
        task = client.request("GET", f"/tasks/{segment(subject.task_id)}/detail")
        talked = [
            attempt["session_id"] for attempt in task["attempt_history"] if attempt["runner"] == RunnerName.CLAUDE
        ]
        last, number = (talked[-1] if talked else None), task["number"]
    if (session_id := session_id or last) is None:
        raise NotFound(
            "No Claude Code client has worked on it.",
            cause="It has not started yet, or another runner executes it.",
            remedy="l shows its output.",
        )
    row = client.request("GET", f"/sessions/{segment(session_id)}")
    is_alive = row["status"] != "disconnected"
    if session_id == last and not is_alive:
        line, task_id = f"corral attach {number}", subject.task_id
    else:
        line, task_id = f"claude --resume {shlex.quote(session_id)}", None
        line = f"cd {shlex.quote(row['worktree'])} && {line}" if row["worktree"] else line
    return Conversation(session_id, row["agent_name"], line, is_alive, row["worktree"], task_id)


def prepare_resume(client: Client, conversation: Conversation) -> tuple[list[str], str]:
    """The command that resumes a conversation, and its folder; of a task, the worktree is made again where it is gone.

    Raises:
        RunnerUnavailable: Its client is not installed.
        Conflict: The task is running, or its branch is checked out elsewhere.
    """
    command, session_id, folder = "claude", conversation.session_id, conversation.folder or str(Path.cwd())
    if conversation.task_id is not None:
        ready = client.request("POST", f"/tasks/{segment(conversation.task_id)}/attach", timeout_s=ATTACH_S)
        command, session_id, folder = ready["command"], ready["session_id"], ready["worktree"]
    program = shutil.which(command)
    if program is None:
        raise RunnerUnavailable(
            f"There is no Claude Code client {command!r}.",
            remedy="Install Claude Code, or set runners.claude.command to its path.",
        )
    return [program, "--resume", session_id], folder
