"""Sessions: arrival, heartbeat, end.

A session is known by Claude Code's own ``session_id`` (a subagent by its ``agent_id``). Its end (its own goodbye, the
death of its process, silence) goes through :mod:`corral.coordination.sessions.session_end`, which also takes its tasks from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.coordination.handoffs import handoffs
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.mail import addresses
from corral.coordination.sessions.names import agent_name
from corral.coordination.sessions.processes import is_start
from corral.coordination.sessions.store import names
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import Conflict, InvalidInput, LimitReached, NotFound
from corral.core.events import EventKind
from corral.core.identifiers import check_session_id
from corral.core.instants import after, iso
from corral.core.payload import Payload, picked
from corral.core.redaction import redact
from corral.core.states import SessionStatus
from corral.runners.process import start_time
from corral.store import events
from corral.store.rows import Columns
from corral.store.rows.sessions import Kin, SessionRow

if TYPE_CHECKING:
    from corral.core.event_payloads import SessionEnded

CONNECTION = "mcp"
"""The ``agent_type`` of a session that is nothing but the connection of an MCP client."""
BY_HTTP = "http"
"""The ``agent_type`` of the session of a client over HTTP: see :mod:`corral.coordination.sessions.tokens`."""
CONNECTIONS = (CONNECTION, BY_HTTP)
"""The types of the sessions of MCP clients outside of Claude Code, and of the further agents that they carry."""
PERSON = "person"
"""The ``agent_type`` of the person at the keyboard."""
SILENT = "silent"
"""Why a session was given up of which nothing was heard."""
UNTOLD = frozenset({"process_gone", "closed", "superseded", SILENT})
"""Why a session is over whose end no event told, so that nobody saved its worktree."""
MOST_LIVE = 1000
"""Sessions at a time, a person's and the workers' of tasks not counted against themselves."""
ERRAND_LIMIT = 120
"""Characters of a prompt that others are shown."""
IDLE_LOCKS_S = 600.0
"""Seconds that the automatic locks of a session last at most once it is idle."""


@dataclass(frozen=True)
class Cleaned:
    """How many sessions were given up, and how many locks came free with them."""

    agents: int
    locks: int


class EndedSession(SessionRow):
    """A session that has just ended, with the paths that came free."""

    released: list[str]


@dataclass(frozen=True)
class Arrival:
    """The properties of a session when it appears; None and empty mean: not given.

    Attributes:
        agent: Whose tasks it does, where it is the worker of an agent that was named, or chosen, for a task.
        transcript_path: Where its client writes down what is said.
        client_pid: The process whose death ends the session, with ``client_started`` against the reuse of the id.
    """

    session_id: str
    agent_type: str = "claude"
    agent_name: str | None = None
    agent: str | None = None
    parent_session_id: str | None = None
    cwd: str | None = None
    worktree: str | None = None
    branch: str | None = None
    client_pid: int | None = None
    client_started: float | None = None
    entrypoint: str | None = None
    transcript_path: str | None = None
    capabilities: tuple[str, ...] = field(default=())
    current_task: str | None = None
    task_id: str | None = None


def register(conn: Connection, arrival: Arrival, now: datetime) -> SessionRow:
    """Create a session, or bring a known one back to life with what is new about it.

    A name that is chosen goes from a session that is over to the one that goes on under it, and the unread mail to it goes
    with it.

    Raises:
        Conflict: The name that was chosen belongs to another living session.
        InvalidInput: The name cannot be one, or means everybody or Corral; the id cannot be one.
        LimitReached: There are too many sessions.
    """
    at = iso(now)
    known = session_rows.get(conn, check_session_id(arrival.session_id))
    if known is None:
        _check_room(conn, arrival)
    name, before = _name(conn, arrival, known)
    details = {
        key: value
        for key, value in vars(arrival).items()
        if value not in (None, (), "") and key not in ("session_id", "agent_name")
    }
    if "capabilities" in details:
        details["capabilities"] = list(arrival.capabilities)
    alive = {"status": SessionStatus.ACTIVE, "last_heartbeat": at, "stalled_since_at": None}
    alive |= {"ended_at": None, "end_reason": None}
    if known is not None:
        is_back = known["status"] == SessionStatus.DISCONNECTED
        anew = {"waiting_for": None, **({"last_words": None} if is_back else {})}
        row = session_rows.change(conn, arrival.session_id, {**details, **alive, **anew, "agent_name": name})
        assert row is not None
        _inherit(conn, name, before, arrival.session_id)
        if is_back:
            events.record(conn, at, EventKind.SESSION_RESUMED, session_id=arrival.session_id)
        return row
    row = session_rows.create(
        conn,
        {
            "capabilities": [],
            **details,
            **alive,
            "session_id": arrival.session_id,
            "agent_name": name,
            "agent_type": arrival.agent_type,
            "started_at": at,
        },
    )
    _inherit(conn, name, before, arrival.session_id)
    events.record(conn, at, EventKind.SESSION_STARTED({"agent_name": name}), session_id=arrival.session_id)
    return row


def _check_room(conn: Connection, arrival: Arrival) -> None:
    if (
        arrival.agent_type == PERSON
        or arrival.task_id is not None
        or not session_rows.more_live_than(conn, MOST_LIVE - 1)
    ):
        return
    raise LimitReached(
        f"There are {MOST_LIVE} sessions already.",
        remedy="`corral session list` shows them; `corral session end NAME` and `corral session cleanup` end them.",
    )


def _name(conn: Connection, arrival: Arrival, session: SessionRow | None) -> tuple[str, list[SessionRow]]:
    """The name that a session gets, and the sessions that had it, all over."""
    if arrival.agent_name is not None:
        try:
            return arrival.agent_name, addresses.freed(conn, arrival.agent_name, arrival.session_id)
        except (Conflict, InvalidInput):
            if arrival.agent_type != PERSON:  # whose name is that of the account, which nobody chose for this
                raise
    if session is not None:
        return str(session["agent_name"]), []
    return name_to_be(conn, arrival.session_id), []


def name_to_be(conn: Connection, session_id: str) -> str:
    """The name that a session without a chosen one gets when it registers: it is chosen by the session's id."""
    return agent_name(lambda name: names.resolve(conn, name) is not None, session_id)


def _inherit(conn: Connection, name: str, before: list[SessionRow], session_id: str) -> None:
    addresses.succeed(conn, name, before, session_id)
    if before:
        names.rebind(conn, name, session_id)


def predecessors(conn: Connection, arrival: Arrival) -> list[str]:
    """The live sessions of the client process that a session arrives from: that one has one session at a time."""
    if arrival.client_pid is None or arrival.parent_session_id is not None:
        return []
    return [
        other["session_id"]
        for other in session_rows.of_processes(conn, [arrival.client_pid])
        if is_start(other["client_started"], arrival.client_started)
        and other["session_id"] != arrival.session_id
        and other["parent_session_id"] is None
    ]


def pass_on(conn: Connection, session_id: str, clients: Sequence[int]) -> bool:
    """A client of a session is gone: another one that has it open too is its client from now on, so it is not over.

    Args:
        clients: Those that run and had it open. One that has gone on to another session since is none.

    Returns:
        Whether there is one.
    """
    for pid in clients:
        rows = session_rows.of_processes(conn, [pid])
        if all(session_id in (row["session_id"], row["parent_session_id"]) for row in rows):
            changes: Columns = {"client_pid": pid, "client_started": start_time(pid)}
            return session_rows.change(conn, session_id, changes) is not None
    return False


def alive(conn: Connection, arrival: Arrival, now: datetime) -> SessionRow:
    """A heartbeat: cheap for a session that is known, a registration for one that is not (or was given up).

    It ends nobody: a late event of the session before a ``/clear`` must not end the one after it.
    """
    return session_rows.beat(conn, arrival.session_id, iso(now)) or register(conn, arrival, now)


def unguard(conn: Connection, session_ids: Iterable[str], now: datetime) -> None:
    """Note that no hook of these sessions is heard, so that their edits are not checked; one that is over edits nothing."""
    for session_id in session_ids:
        row = session_rows.get(conn, session_id)
        if row is not None and row["status"] != SessionStatus.DISCONNECTED and row["unguarded_since_at"] is None:
            session_rows.change(conn, session_id, {"unguarded_since_at": iso(now)})


def kin_of(row: Kin) -> tuple[str, ...]:
    """The sessions whose locks a session may use as its own: a subagent works for its parent. Agents that only share a
    connection are strangers to each other."""
    parent = row["parent_session_id"]
    return (parent,) if parent and row["agent_type"] not in CONNECTIONS else ()


def rest(conn: Connection, session_id: str, now: datetime, **values: Any) -> None:
    """A session is idle: its automatic locks last no longer than :data:`IDLE_LOCKS_S` from now, unless it goes on."""
    if values.get("last_words"):
        values["last_words"] = redact(values["last_words"])
    session_rows.change(conn, session_id, {"status": SessionStatus.IDLE, **values})
    lock_rows.shorten(conn, session_id, after(now, IDLE_LOCKS_S))


def prompt_summary(prompt: str) -> str:
    """The request of a prompt, in a line for others; empty for a command, or where the client talks to its own model."""
    lines = (line.strip() for line in prompt.splitlines())
    first = next((line for line in lines if line and not line.startswith("<pasted_content")), "")
    if first.startswith(("/", "<", "[SYSTEM")):
        return ""
    first = redact(first)
    return first if len(first) <= ERRAND_LIMIT else first[: ERRAND_LIMIT - 1] + "…"


def change(conn: Connection, session_id: str, values: Columns) -> SessionRow:
    """Set what a session says of itself.

    Raises:
        NotFound: No such session.
    """
    row = session_rows.change(conn, session_id, values)
    if row is None:
        raise NotFound(f"There is no session {session_id}.", remedy="`corral session list` shows all.")
    return row


def find(conn: Connection, address: str) -> SessionRow:
    """A session by its id, or by a name that it goes by.

    Raises:
        NotFound: No such session.
    """
    session = names.resolve(conn, address)
    row = session_rows.get(conn, session["session_id"]) if session is not None else None
    if row is None:
        raise NotFound(f"There is no session {address[:80]!r}.", remedy="`corral session list` shows all.")
    return row


def end(conn: Connection, session_id: str, reason: str, now: datetime, *, by: str | None = None) -> EndedSession | None:
    """The part of :mod:`corral.coordination.sessions.session_end` that this package knows: the session and its subagents end,
    their locks come free, and its automatic handoff is written.

    Args:
        by: The session that asked for it, if another (or the person's); for the record.

    Returns:
        Its row, with the paths that came free as ``released``; None if it had ended before.
    """
    at = iso(now)
    family = session_rows.family(conn, session_id)
    row = session_rows.end(conn, session_id, reason, at)
    if row is None:
        return None
    parent = session_rows.get(conn, row["parent_session_id"]) if row["parent_session_id"] else None
    if parent is not None and parent["status"] != SessionStatus.DISCONNECTED and parent["worktree"]:
        lock_rows.inherit(conn, session_id, parent["session_id"], parent["worktree"])
    for child in session_rows.end_children(conn, session_id, reason, at):
        events.record(conn, at, EventKind.SESSION_ENDED({"reason": reason, "released": []}), session_id=child)
    locks = lock_rows.release_all(conn, family)
    released = [lock["file_path"] for lock in locks]
    data: SessionEnded = {"reason": reason, "released": released}
    if by:
        data["by"] = by
    handoffs.leave(conn, row, family, locks, now)
    events.record(conn, at, EventKind.SESSION_ENDED(data), session_id=session_id)
    return {**row, "released": released}


def wire(row: SessionRow) -> Payload:
    """A session as every surface shows it."""
    return {
        "session_id": row["session_id"],
        "agent_id": row["agent_name"],
        "agent_name": row["agent_name"],
        "agent_type": row["agent_type"],
        "status": session_rows.shown_status(row),
        "current_task": row["current_task"],
        **picked(row, ("task_id", "worktree", "branch", "capabilities", "waiting_for")),
        "pid": row["client_pid"] if row["ended_at"] is None else None,
        "unguarded": row["unguarded_since_at"] is not None,
        **picked(row, ("parent_session_id", "started_at", "last_heartbeat", "ended_at", "end_reason")),
    }
