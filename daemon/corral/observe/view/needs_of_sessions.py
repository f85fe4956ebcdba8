"""Needs of a person in sessions: questions, edits that nobody checks, silence, and changes that nobody announced."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.coordination.edits.unannounced import is_locked
from corral.coordination.edits.verdicts import Target
from corral.coordination.locks.keys import literal_key
from corral.coordination.sessions.processes import terminal_of
from corral.coordination.sessions.store import sessions
from corral.core.needs import Need
from corral.core.states import SessionStatus, ShownStatus
from corral.core.visible import one_line, waiting
from corral.store.rows import required
from corral.store.rows.sessions import SessionRow
from corral.work.tasks.store import tasks

if TYPE_CHECKING:
    from corral.coordination.services import Services


def waiting_sessions(_services: Services, conn: Connection) -> Iterator[Need]:
    """Sessions that wait for a permission or an answer in the middle of a turn."""
    for row in sessions.live(conn):
        if row["waiting_for"] is None or row["status"] != SessionStatus.ACTIVE:
            continue
        file = f" of {one_line(_relative(row))}" if row["waiting_path"] else ""
        yield Need(
            "waiting_session",
            f"{row['agent_name']} {waiting(one_line(row['waiting_for']))}{file}.{_task_of(conn, row)}",
            f"Answer {_place(row)}. Or end it: corral session end {row['agent_name']}",
            row["waiting_since_at"],
            {"session_id": row["session_id"], **({"task_id": row["task_id"]} if row["task_id"] else {})},
        )


def _place(row: SessionRow) -> str:
    """Where a session is answered: the terminal by its name, as `tty` prints it there, or what else is known."""
    pid = row["client_pid"]
    if pid is None:
        return "in its terminal"
    named = terminal_of(pid)
    return f"in its terminal {named} (process {pid})" if named else f"where it runs (process {pid})"


def _relative(row: SessionRow) -> str:
    """The file that a session asks about, as its own worktree calls it."""
    path, top = required(row["waiting_path"]), row["worktree"] or row["cwd"] or ""
    return path[len(top) + 1 :] if top and path.startswith(f"{top}/") else path


def _task_of(conn: Connection, row: SessionRow) -> str:
    """A sentence that names what a session works on; empty where nobody knows."""
    task = tasks.get(conn, row["task_id"]) if row["task_id"] else None
    if task is not None:
        return f" Its task: {one_line(task['title'])[:80]!r}"
    return f" It was asked: {one_line(row['current_task'])[:80]}" if row["current_task"] else ""


def unguarded_sessions(_services: Services, conn: Connection) -> Iterator[Need]:
    """Sessions whose edits are not checked."""
    for row in sessions.live(conn):
        if row["unguarded_since_at"] is not None:
            yield Need(
                "unguarded_session",
                f"{row['agent_name']}'s edits are not checked: its bridge is not connected.{_task_of(conn, row)}",
                "In that session: /mcp reconnect plugin:corral:corral, then any prompt, which tells Corral; or start it again. "
                "`corral doctor` looks for the cause.",
                row["unguarded_since_at"],
                {"session_id": row["session_id"]},
            )


def silent_mods(services: Services, conn: Connection) -> Iterator[Need]:
    """Sessions whose hooks are heard, and whose mod is not there: hooks alone can be switched off in the midst of a session."""
    for row in sessions.live(conn):
        if services.mods.is_silent(row["session_id"]):
            yield Need(
                "silent_mod",
                f"{row['agent_name']} runs without Corral's mod: its hooks guard it alone.{_task_of(conn, row)}",
                "Start that session again. If it stays so, `claude --debug` says why; an administrator may have forbidden mods.",
                None,
                {"session_id": row["session_id"]},
            )


def stalled_sessions(_services: Services, conn: Connection) -> Iterator[Need]:
    """Sessions without a heartbeat in the middle of a turn; a worker that stalls is ended by the supervisor."""
    for row in sessions.live(conn):
        if sessions.shown_status(row) != ShownStatus.STALLED:
            continue
        if row["task_id"] is not None:  # the supervisor ends a worker that makes no progress
            continue
        yield Need(
            "stalled_session",
            f"{row['agent_name']} gives no sign in the middle of its turn since {row['last_heartbeat']}.{_task_of(conn, row)}",
            "Look at its terminal. Take its locks (corral lock force-release PATH), or end it: "
            f"corral session end {row['agent_name']}",
            row["stalled_since_at"],
            {"session_id": row["session_id"]},
        )


def unannounced_changes(services: Services, conn: Connection) -> Iterator[Need]:
    """Files that changed while no daemon ran, until a session locks, changes or commits them."""
    now = services.now()
    for top, files in services.unannounced.files().items():
        keys = {path: Target(literal_key(path, fold=services.fold), top) for path, _signature in files.values()}
        paths = [path for path, target in sorted(keys.items()) if not is_locked(conn, target, now)]
        if not paths:
            continue
        shown = ", ".join(one_line(path) for path in paths[:5]) + (f" and {len(paths) - 5} more" if paths[5:] else "")
        yield Need(
            "unannounced_changes",
            f"{len(paths)} uncommitted file{'s' if paths[1:] else ''} in {top} changed while Corral's daemon was away, "
            f"and nobody announced it: {shown}.",
            f"Look whose they are: {shlex.join(['git', '-C', top, 'status', '--', *paths[:5]])}. "
            "Commit yours, or take them: corral lock acquire PATH",
        )
