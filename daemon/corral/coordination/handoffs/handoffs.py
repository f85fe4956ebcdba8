"""Handoffs: what one session leaves for the next, and which of them a newcomer is given.

A session may write any number. One that ends without having written about its last edits has one written for it
(the second part of this module), which says so: ``automatic``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection

from corral.coordination.handoffs import store as handoff_rows
from corral.coordination.handoffs.api import Handoff
from corral.coordination.locks.keys import NAMESPACES
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.sessions.store import traces
from corral.core.errors import InvalidInput, NotFound
from corral.core.events import EventKind, payload
from corral.core.identifiers import new_id
from corral.core.instants import after, iso, parse
from corral.core.payload import Payload, picked
from corral.core.states import OPEN_MERGES, MergeState, TaskStatus
from corral.core.visible import visible
from corral.store import events
from corral.store.rows import Columns, required
from corral.store.rows.records import EventRow, HandoffRow
from corral.store.rows.sessions import LockRow, SessionRow

Lines = str | Sequence[str] | None
"""A list as callers pass it: items, or text with one on each line."""

ListName = Literal["completed_work", "in_progress", "decisions", "next_steps", "relevant_files"]
LISTS = ("completed_work", "in_progress", "decisions", "next_steps", "relevant_files")
LIMIT = 32_000
"""Characters of a whole handoff: one that is longer than that is not read."""
MAX_SHOWN = 100
"""Handoffs in one answer."""
UNBRIEFED = ("mcp", "person", "command")
"""The ``agent_type`` of those who are given no briefing."""
BRIEF = 700
"""Characters of it in a newcomer's briefing."""


def lines(value: Lines) -> list[str]:
    """The items of a list; a line's own mark (``- ``, ``* ``) is taken off, empty ones are left out."""
    items = value.splitlines() if isinstance(value, str) else value or ()
    plain = (item.strip().removeprefix("- ").removeprefix("* ") for item in items)
    return [item for item in plain if item]


def write(conn: Connection, session_id: str, summary: str, lists: Mapping[str, Lines], now: datetime) -> HandoffRow:
    """Store the handoff of a session.

    Args:
        lists: By the names in :data:`LISTS`; one that is missing is empty.

    Raises:
        InvalidInput: No summary, or too much text.
        NotFound: No such session.
    """
    entries = {name: lines(lists.get(name)) for name in LISTS}
    size = len(summary) + sum(len(item) for items in entries.values() for item in items)
    if not summary.strip():
        raise InvalidInput("A handoff needs a summary.", remedy="Say in a few sentences where the work stands.")
    if size > LIMIT:
        raise InvalidInput(
            f"A handoff has at most {LIMIT} characters; this one has {size}.",
            cause="Later sessions have to read it.",
            remedy="Say what matters, and name files for the rest.",
        )
    row = session_rows.get(conn, session_id)
    if row is None:
        raise NotFound(f"There is no session {session_id}.", remedy="`corral session list` shows all.")
    return store(conn, row, {"summary": summary.strip(), **entries}, now, automatic=False)


def store(conn: Connection, session: SessionRow, values: Columns, now: datetime, *, automatic: bool) -> HandoffRow:
    """Store a handoff under a session's name, with its worktree and branch."""
    handoff = handoff_rows.create(
        conn,
        {
            **values,
            "handoff_id": new_id(),
            "session_id": session["session_id"],
            "agent_name": traces.called(conn, session),
            "automatic": automatic,
            "worktree": session["worktree"],
            "branch": session["branch"] or traces.branch_of(conn, session["worktree"]),
            "created_at": iso(now),
        },
    )
    written = EventKind.HANDOFF_WRITTEN({"handoff_id": handoff["handoff_id"], "automatic": automatic})
    events.record(conn, iso(now), written, session_id=session["session_id"])
    return handoff


def recent(conn: Connection, agent_name: str | None, limit: int, *, of: str | None = None) -> list[Payload]:
    """The newest handoffs, of one agent or of everybody.

    Args:
        of: The session whose they are, under whatever name.

    Raises:
        InvalidInput: A limit that is no number from 1 to 100.
    """
    if not 1 <= limit <= MAX_SHOWN:
        raise InvalidInput(f"A limit of {limit} is not possible.", remedy=f"Ask for 1 to {MAX_SHOWN}.")
    return [wire(row) for row in handoff_rows.listing(conn, agent_name or None, limit, of=of)]


def of_caller(conn: Connection, session_id: str, limit: int) -> list[Payload]:
    """The newest handoffs of a session, by any of its names; where there are none, the one that was left for it.

    Raises:
        InvalidInput: A limit that is no number from 1 to 100.
    """
    rows = recent(conn, None, limit, of=session_id)
    me = session_rows.get(conn, session_id) if not rows else None
    left = left_for(conn, me) if me is not None else None
    return [wire(left)] if left is not None else rows


def for_newcomer(conn: Connection, me: SessionRow) -> str | None:
    """The handoff that a session's briefing begins with, shortened; None where nobody left one for it."""
    handoff = left_for(conn, me)
    return _brief(handoff) if handoff is not None else None


def left_for(conn: Connection, me: SessionRow) -> HandoffRow | None:
    """The handoff that was left for a session; None where nobody left one for it.

    The first of these, always the newest from a session that is over: one under the same name; one of an earlier attempt at the
    same task; one from the same worktree or branch, unless somebody else has begun there since, who was given it.

    Args:
        me: The newcomer's row.
    """
    session_id = me["session_id"]
    handoff = handoff_rows.of_name(conn, me["agent_name"], besides=session_id)
    if handoff is None and me["task_id"]:
        handoff = handoff_rows.of_task(conn, me["task_id"], besides=session_id)
    if handoff is None:
        branch = me["branch"] or traces.branch_of(conn, me["worktree"])
        handoff = handoff_rows.of_place(conn, me["worktree"], branch, besides=session_id)
        if handoff is not None and handoff_rows.was_followed(conn, handoff, besides=session_id, passers=UNBRIEFED):
            handoff = None
    return handoff


_BRIEFLY: tuple[tuple[str, ListName], ...] = (
    ("In progress", "in_progress"),
    ("Next", "next_steps"),
    ("Decided", "decisions"),
    ("Files", "relevant_files"),
)


def _brief(handoff: HandoffRow) -> str:
    """A handoff for the briefing, quoted line by line, so that no reader takes it for Corral's words."""
    parts = [handoff["summary"]]
    parts += [f"{label}: {'; '.join(handoff[name])}" for label, name in _BRIEFLY if handoff[name]]
    quoted = "\n".join(f"> {line}" for line in visible("\n".join(parts)).replace("<", "&lt;").splitlines())
    if len(quoted) > BRIEF:
        quoted = quoted[: BRIEF - 1] + "…"
    when = handoff["created_at"][:16].replace("T", " ")
    return (
        f"{handoff['agent_name']} left this on {when} UTC (all of it: `corral handoff show {handoff['handoff_id'][:8]}`):\n"
        f"{quoted}"
    )


def wire(row: HandoffRow) -> Payload:
    """A handoff as every surface shows it."""
    return picked(row, Handoff.__annotations__)


# -- The handoff that Corral writes for a session which ended without writing one: in the transaction that ends it.
#
# It is made of stored rows; nothing is asked, and no file is read. None is written for a session with nothing to hand
# over: a person, a command, a subagent (its parent speaks for both), a worker whose task is completed (the task
# tells), and a session that did nothing which somebody could go on with: no lock, no task, no commit, whatever it
# said (unless its process died: what it was about to do is in its last words). Its messages to others are in inboxes.

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
    return store(conn, session, _account(conn, session, deeds, released, written), now, automatic=True)


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
