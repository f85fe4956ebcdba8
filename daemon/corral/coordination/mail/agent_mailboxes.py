"""Agents' mailboxes: mail to an agent reaches the worker that does its tasks, and waits for the next one while there is none.

A worker has a session and a name of its own with each attempt, and several may be at work for one agent. So mail to the agent
goes to each of them, and where there is none to the agent's mailbox: a session that no process has.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions.store import names
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.states import SessionStatus
from corral.store.rows.sessions import CalledSession

SEAT = "seat"
"""The ``agent_type`` of an agent's mailbox: a session that no process has."""


def holders(conn: Connection, name: str) -> list[CalledSession]:
    """Whom a name means, with ``called``: the living session that goes by it and those at work for the agent that does; if
    there is none, the last session of that name, or the agent's mailbox."""
    session, workers = names.candidates(conn, name)
    if session is None or (workers and session["status"] == SessionStatus.DISCONNECTED):
        return workers
    return [session, *workers]


def make(conn: Connection, agent: str, now: datetime) -> CalledSession:
    """Make the mailbox of an agent whose name no session has."""
    at = iso(now)
    identity = {"session_id": f"{SEAT}-{new_id()}", "agent_name": agent, "agent_type": SEAT, "capabilities": []}
    ended = {"status": SessionStatus.DISCONNECTED, "ended_at": at, "end_reason": "vacant"}
    return names.called(session_rows.create(conn, {**identity, **ended, "started_at": at, "last_heartbeat": at}), agent)


def take(conn: Connection, agent: str, session_id: str, now: datetime) -> None:
    """A worker begins: move the mail that waits for its agent to its session."""
    sessions = names.holders(conn, agent)
    if not sessions:
        make(conn, agent, now)
    for row in sessions:
        if row["status"] == SessionStatus.DISCONNECTED:
            message_rows.move(conn, agent, row["session_id"], session_id)


def leave(conn: Connection, session_id: str, now: datetime) -> None:
    """A worker ended: pass its agent's unseen mail on to the session that has the agent's name now."""
    row = session_rows.get(conn, session_id)
    if row is None or row["agent"] is None:
        return
    heir = names.resolve(conn, row["agent"]) or make(conn, row["agent"], now)
    message_rows.pass_on(conn, row["agent"], session_id, heir["session_id"], iso(now))
