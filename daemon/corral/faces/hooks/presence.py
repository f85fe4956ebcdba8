"""The session of an event: its identity, and that it is alive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.paths import find_checkout
from corral.coordination.locks.table import Holder
from corral.coordination.services import Services
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.instants import iso
from corral.core.states import SessionStatus
from corral.faces.hooks.payloads import HookEvent
from corral.runners.process import start_time
from corral.store.rows import Columns
from corral.store.rows.sessions import SessionRow

BRIDGE_WITHIN = timedelta(seconds=10)
"""How long after its registration a session's bridge is expected; without one the session is unguarded."""


def arrival(services: Services, event: HookEvent) -> Arrival:
    """The session that an event describes."""
    checkout = services.project.known(find_checkout(Path(event.cwd))) if event.cwd else None
    pid = event.client_pid
    return Arrival(
        session_id=event.actor,
        agent_type=event.agent_type or ("subagent" if event.parent else "claude"),
        parent_session_id=event.parent,
        cwd=event.cwd or None,
        worktree=str(checkout.top) if checkout else None,
        branch=_branch(checkout.git_dir) if checkout else None,
        client_pid=pid,
        client_started=start_time(pid) if pid else None,
        entrypoint=event.entrypoint or None,
        transcript_path=event.transcript_path or None,
    )


def await_bridge(services: Services, event: HookEvent, now: datetime) -> None:
    """Expect the bridge of a session that a client's own hook registered."""
    if event.client_pid is not None and event.entrypoint and not event.bridge:
        services.runtime.await_bridge(event.actor, event.client_pid, now + BRIDGE_WITHIN)
        services.nudge("sessions")


def _branch(git_dir: Path) -> str | None:
    """The branch in a checkout's HEAD file, read without git; None if it is detached or unreadable."""
    try:
        kind, _, name = (git_dir / "HEAD").read_text(encoding="utf-8").strip().partition("ref: refs/heads/")
    except (OSError, UnicodeDecodeError):
        return None
    return name if name and not kind and name != ".invalid" else None


Present = Callable[[Connection], Holder]


def presence(services: Services, event: HookEvent, now: datetime) -> Present:
    """A function that marks the session (and in a subagent its parent) as alive and active, to be called in a write.

    The details of the event are read from the disk here, before the write: the writer must not wait for files.
    """
    seen = arrival(services, event)

    def present(conn: Connection) -> Holder:
        if event.parent:
            session_registry.alive(conn, Arrival(session_id=event.parent), now)
        row = session_registry.alive(conn, seen, now)
        news: dict[str, Any] = {}
        if event.is_guest or (seen.worktree is None and row["worktree"] is None and event.is_edit):
            # A guest from outside of this project, of which nothing but what concerns it is heard: silence is no sign.
            news = {"status": SessionStatus.IDLE}
            if event.parent:
                client = {"client_pid": seen.client_pid, "client_started": seen.client_started}
                session_rows.change(conn, event.parent, {**news, **client})
        elif row["waiting_for"] is not None or row["status"] == SessionStatus.IDLE:
            news = {"waiting_for": None, "status": SessionStatus.ACTIVE}
        if seen.worktree not in (None, row["worktree"]):  # the session moved there: it must not be reclaimed
            news = {**news, "worktree": seen.worktree, "cwd": seen.cwd}
        if seen.branch not in (None, row["branch"]):
            news = {**news, "branch": seen.branch}
        if seen.client_pid not in (
            None,
            row["client_pid"],
        ):  # two clients have it open: the one that was heard last speaks
            news = {**news, "client_pid": seen.client_pid, "client_started": seen.client_started}
        if row["unguarded_since_at"] is not None and _is_guarded(event):
            news = {**news, "unguarded_since_at": None}
        if news:
            session_rows.change(conn, event.actor, news)
        kin = (event.parent,) if event.parent else ()
        return Holder(session_id=event.actor, task_id=row["task_id"], kin=kin)

    return present


def _is_guarded(event: HookEvent) -> bool:
    """Whether the event proves that the session's edits are checked: it is such a check, or its bridge is connected."""
    return not event.parent and (
        event.name == "PreToolUse" or (event.name == "UserPromptSubmit" and bool(event.bridge))
    )


# -- A session that waits for its person: the columns of its row, from the event

LONGEST = 300
"""Maximum length of the reason, characters."""
_QUESTIONS = {"AskUserQuestion": "an answer to its question", "ExitPlanMode": "approval of its plan"}
"""Tools that ask a person, and for what."""


def waits_for_person(before: SessionRow | None, event: HookEvent, now: datetime) -> Columns:
    """The columns of a waiting session: for what, since when, for which file; an idle session stays idle.

    A notice of a permission dialog comes after the request that names the tool, and says less.

    Args:
        before: The session as it was before the event; None: it is new.
    """
    waited = before if before is not None and before["waiting_for"] is not None else None
    same = waited if event.notification == "permission_prompt" else None
    question = (
        event.message or _QUESTIONS.get(event.tool) or (f"permission for {event.tool}" if event.tool else "its person")
    )
    is_idle = before is not None and before["status"] == SessionStatus.IDLE
    return {
        "waiting_for": same["waiting_for"] if same else question[:LONGEST],
        "waiting_since_at": (waited["waiting_since_at"] if waited else None) or iso(now),
        "waiting_path": same["waiting_path"] if same else event.path or None,
        "status": SessionStatus.IDLE if is_idle else SessionStatus.ACTIVE,
    }
