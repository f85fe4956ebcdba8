"""Programs outside the screen: a shell or an editor in a worktree, and a conversation that is resumed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from corral.client.connection import Client, segment
from corral.config.paths import find_checkout
from corral.core.errors import Conflict, InvalidInput, NotFound, RunnerUnavailable
from corral.core.states import RunnerName
from corral.core.visible import one_line
from corral.faces.screen.actions import RowSubject
from corral.faces.screen.text import Row

ANSWER_S = 600.0
"""For a worktree to be made, seconds."""
ATTACH_S = 180.0
"""For the worktree of a conversation to be made again, seconds."""


@dataclass(frozen=True)
class Place:
    """A worktree to open.

    Attributes:
        branch: The branch that is checked out there, if that is known.
        request: The merge request that its branch would replace; None: there is none that came back.
        is_new: Whether it was made for this.
    """

    path: str
    branch: str | None
    request: Row | None = None
    is_new: bool = False


def find_place(client: Client, subject: RowSubject) -> Place:
    """The worktree that belongs to a row; for a merge request without one, a new one at its head.

    Raises:
        NotFound: The row has no worktree, and none can be made for it.
    """
    request = _request_of(client, subject)
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
        raise NotFound(f"{subject.title[:60]!r} has no worktree.", remedy="A task has one while it runs.")
    name = f"look-{request['merge_id'][:8]}"
    worktree = client.request("POST", "/worktrees", {"name": name, "base": request["head_sha"]}, timeout_s=ANSWER_S)
    return Place(worktree["path"], worktree["branch"], request, is_new=True)


def _request_of(client: Client, subject: RowSubject) -> Row | None:
    if subject.merge is None:
        return None
    try:
        request: Row = client.request("GET", f"/merges/{segment(subject.merge)}")
    except NotFound:
        return None
    return request


def head_of(path: str) -> str | None:
    """The commit that is checked out in a worktree, read from its files; None: nothing is."""
    checkout = find_checkout(Path(path))
    if checkout is None:
        return None
    head = (checkout.git_dir / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref: "):
        return head
    common = checkout.git_dir / "commondir"
    shared = (checkout.git_dir / common.read_text("utf-8").strip()) if common.exists() else checkout.git_dir
    loose, packed = shared / head[5:], shared / "packed-refs"
    if loose.is_file():
        return loose.read_text("utf-8").strip()
    lines = packed.read_text("utf-8").splitlines() if packed.is_file() else []
    return next((line.split(" ")[0] for line in lines if line.endswith(f" {head[5:]}")), None)


def open_shell(place: Place) -> None:
    """Run $SHELL in a worktree, on the terminal, until it ends."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    _print(place.path + (f"  (branch {place.branch})" if place.branch else ""))
    _print("`exit` brings you back to Corral.")
    if place.request is not None and place.request["state"] == "conflict":
        target = shlex.quote(place.request["target"])
        _print(f"To resolve the conflict: git merge {target}, correct the files, git commit -a, exit.")
    _run([shell], place.path)


def open_editor(place: Place) -> None:
    """Run $VISUAL or $EDITOR on a worktree.

    Raises:
        InvalidInput: No editor is set.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise InvalidInput("No editor is set.", remedy="Set EDITOR; or press o, which opens a shell there.")
    _run([*shlex.split(editor), place.path], place.path)


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
        raise NotFound("No Claude Code client has worked on it.", remedy="l shows its output.")
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


def resume(argv: list[str], folder: str) -> None:
    """Resume a conversation on this terminal, until it ends."""
    _run(argv, folder)


def _run(command: list[str], folder: str) -> None:
    try:
        subprocess.run(command, cwd=folder, check=False)
    except (OSError, ValueError) as error:
        raise Conflict(f"Cannot start {command[0]!r} in {folder}.", cause=str(error), remedy=f"{error}") from error


def _print(text: str) -> None:
    """Print a line past Python's own streams, which the screen has redirected."""
    encoding = sys.stdout.encoding or "ascii"
    os.write(1, one_line(text).encode(encoding, "backslashreplace") + b"\n")
