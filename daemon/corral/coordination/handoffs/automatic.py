"""The handoff that Corral writes for a session which ended without writing one: in the transaction that ends it.

It is made of stored rows; nothing is asked, and no file is read. None is written for a session with nothing to hand over: a
person, a command, a subagent (its parent speaks for both), a worker whose task is completed (the task tells), and a session that
did nothing which somebody could go on with: no lock, no task, no commit, whatever it said (unless its process died: what it was
about to do is in its last words). Its messages to others are in inboxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection

from corral.coordination.handoffs import handoffs
from corral.coordination.handoffs import store as handoff_rows
from corral.coordination.locks.keys import NAMESPACES
from corral.coordination.sessions.store import traces
from corral.core.events import EventKind, payload
from corral.core.instants import after, parse
from corral.core.states import OPEN_MERGES, MergeState, TaskStatus
from corral.store.rows import Columns, required
from corral.store.rows.records import EventRow, HandoffRow
from corral.store.rows.sessions import LockRow, SessionRow

SPEECHLESS = ("person", "command")
"""The ``agent_type`` of those who leave no handoff."""
WORDS = 2000
"""Characters of a session's last words that are kept."""
_DEEDS = (
    *("task.", "merge.", "feature.", "worktree."),
    *(EventKind.SESSION_COMMITTED, EventKind.LOCK_FORCE_RELEASED, EventKind.LOCK_RELEASED, EventKind.LOCK_EXPIRED),
)
"""How the events of work begin."""
_ENDS = {
    "silent": "fell silent",
    "process_gone": "was gone: its process died",
    "superseded": "was replaced by another session of its client",
    "closed": "hung up",
}


def leave(
    conn: Connection, session: SessionRow, family: Sequence[str], released: Sequence[LockRow], now: datetime
) -> HandoffRow | None:
    """Write the handoff of a session that has just ended; None where nothing is to hand over, or it wrote one itself.

    Args:
        session: Its row.
        family: The ids of it and its subagents.
        released: The locks that came free with it.
    """
    if session["agent_type"] in SPEECHLESS or session["parent_session_id"] or _has_delivered(conn, session):
        return None
    deeds = _deeds(conn, session["session_id"], family)
    was_cut_off = session["end_reason"] == "process_gone" and session["last_words"]
    if not (released or deeds or was_cut_off):
        return None
    written = handoff_rows.own(conn, session["session_id"])
    if written is not None and written["created_at"] >= max(map(_touched, released), default=""):
        return None
    return handoffs.store(conn, session, _account(conn, session, deeds, released, written), now, automatic=True)


def _has_delivered(conn: Connection, session: SessionRow) -> bool:
    tasks = traces.tasks_of(conn, [session["task_id"]] if session["task_id"] else [])
    return any(task["status"] == TaskStatus.COMPLETED for task in tasks)


def _deeds(conn: Connection, session_id: str, family: Sequence[str]) -> list[EventRow]:
    """The actions of a session and its subagents since it came, or came back."""
    rows = traces.events_of(conn, family)
    resumptions = [
        at for at, row in enumerate(rows) if (row["kind"], row["session_id"]) == (EventKind.SESSION_RESUMED, session_id)
    ]
    return [row for row in rows[resumptions[-1] if resumptions else 0 :] if _is_deed(row)]


def _is_deed(event: EventRow) -> bool:
    end = payload(event, EventKind.SESSION_ENDED)
    return event["kind"].startswith(_DEEDS) or (end is not None and bool(end["released"]))


def _touched(lock: LockRow) -> str:
    """When a lock was taken or renewed last, which every edit does."""
    return max(str(lock["acquired_at"]), after(parse(lock["expires_at"]), -lock["ttl_s"]))


def _account(
    conn: Connection,
    session: SessionRow,
    deeds: list[EventRow],
    released: Sequence[LockRow],
    written: HandoffRow | None,
) -> Columns:
    own_task = {session["task_id"]} if session["task_id"] is not None else set()
    tasks = traces.tasks_of(conn, _named(deeds, "task_id") | own_task)
    merges = traces.merges_of(conn, _named(deeds, "merge_id"))
    landed = [row for row in merges if row["state"] == MergeState.LANDED]
    open_merges = [row for row in merges if row["state"] in OPEN_MERGES]
    came_back = [row for row in merges if row["state"] in (MergeState.CONFLICT, MergeState.FAILED)]
    open_tasks = [row for row in tasks if row["completed_at"] is None]
    return {
        "summary": _summary(conn, session),
        "completed_work": [
            *(f"Task completed: {row['title']}" for row in tasks if row["status"] == TaskStatus.COMPLETED),
            *(f"Landed on {row['target']}: {row['title']} ({required(row['landed_sha'])[:12]})" for row in landed),
            *_commits(deeds),
        ],
        "in_progress": [
            *(f"Task {row['task_id']} is {row['status']}: {row['title']}" for row in open_tasks),
            *(f"Merge request {row['merge_id']} of {row['branch']} is {row['state']}" for row in open_merges),
        ],
        "decisions": list(written["decisions"]) if written is not None else [],
        "next_steps": [
            *(f"Merge request {row['merge_id']} of {row['branch']} came back: {row['reason']}" for row in came_back),
            *(written["next_steps"] if written is not None else ()),
        ],
        "relevant_files": _files(deeds, released),
    }


def _named(deeds: list[EventRow], column: Literal["task_id", "merge_id"]) -> set[str]:
    return {value for row in deeds if (value := row[column]) is not None}


def _summary(conn: Connection, session: SessionRow) -> str:
    ended = _ENDS.get(session["end_reason"] or "", f"ended ({session['end_reason']})")
    at_work = f" at work on: {session['current_task']}" if session["current_task"] else ""
    last_words = (session["last_words"] or "").strip()
    words = f"\nIts last words: {last_words[:WORDS]}" if last_words else ""
    return f"{traces.called(conn, session)} {ended}{at_work}{words}"


def _commits(deeds: list[EventRow]) -> Iterator[str]:
    for row in deeds:
        committed = payload(row, EventKind.SESSION_COMMITTED)
        for commit in committed["commits"] if committed is not None else ():
            yield f"Committed {commit['sha'][:12]}: {commit['subject']}"


def _files(deeds: list[EventRow], released: Sequence[LockRow]) -> list[str]:
    """The paths locked at the end, then those locked before, the latest first; each once."""
    paths = [*(row["file_path"] for row in released), *(path for row in reversed(deeds) for path in _freed(row))]
    return list(dict.fromkeys(path for path in paths if _is_file(path)))[:200]


def _freed(event: EventRow) -> list[str]:
    """The paths that were held until an event."""
    if (released := payload(event, EventKind.LOCK_RELEASED)) is not None:
        return released["paths"]
    if (expired := payload(event, EventKind.LOCK_EXPIRED)) is not None:
        return [expired["path"]]
    end = payload(event, EventKind.SESSION_ENDED)
    return end["released"] if end is not None else []


def _is_file(path: str) -> bool:
    """Whether it is one file to look at, and neither a logical key nor a glob over many."""
    return path.partition(":")[0] not in NAMESPACES and not set("*?") & set(path)
