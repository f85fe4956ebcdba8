"""Handoffs: what one session leaves for the next, and which of them a newcomer is given.

A session may write any number. One that ends without having written about its last edits has one written for it
(:mod:`corral.coordination.handoffs.automatic`), which says so: ``automatic``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection

from corral.coordination.handoffs import store as handoff_rows
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.sessions.store import traces
from corral.core.errors import InvalidInput, NotFound
from corral.core.events import EventKind
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.payload import Payload, picked
from corral.core.visible import visible
from corral.store import events
from corral.store.rows import Columns
from corral.store.rows.records import HandoffRow
from corral.store.rows.sessions import SessionRow

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
    head = ("handoff_id", "agent_name", "session_id", "automatic", "summary")
    return picked(row, (*head, *LISTS, "worktree", "branch", "created_at"))
