"""Addresses: the sessions that a name stands for, the names that a session may use, and further names."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, cast

from sqlalchemy import Connection

from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions.names import agent_name, check_agent_name
from corral.coordination.sessions.store import names as name_rows
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import Conflict, InvalidInput, NotFound, NotPermitted, cause_of_name
from corral.core.events import EventKind
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.states import RecipientRole, SessionStatus
from corral.store import events
from corral.store.rows.sessions import CalledSession, NameRow, SessionRow

if TYPE_CHECKING:
    from corral.core.event_payloads import IdentityRefused
from corral.coordination.sessions.store import names

Roles = Callable[[str], "Sequence[str] | None"]
"""The names of the members of the team who have a role, or of the one who is called so; None: there is neither."""
EVERYBODY = "all"
SYSTEM = "Corral"
"""The name under which Corral itself writes."""
MOST_RECIPIENTS = 1000


def no_roles(_role: str) -> Sequence[str] | None:
    """Where there is no team."""
    return None


class RecipientNotFound(NotFound):
    """A recipient does not exist, and nothing was sent. ``details['unknown']`` names each."""

    name = "recipient_not_found"


class AgentNotFound(NotFound):
    """Nobody goes by that name."""

    name = "not_found"
    default_cause = "The agent has not registered, or the name is mistyped."
    default_remedy = "discover_agents, or `corral session list`, shows who is there."


class Addressee(TypedDict):
    """A session that a message goes to: how it was named, and whether anybody is there."""

    session_id: str
    name: str
    role: str
    status: str


@dataclass(frozen=True)
class Identity:
    """A session under one of its names."""

    session_id: str
    name: str


def identity(conn: Connection, session_id: str, name: str | None) -> Identity:
    """The session under the name that it wants to act by; None: its own.

    Raises:
        AgentNotFound: Nobody goes by that name.
        NotPermitted: Another session does.
    """
    session = session_rows.get(conn, session_id)
    if name is None:
        if session is None:
            raise AgentNotFound(f"There is no session {session_id}.")
        return Identity(session_id, session["agent_name"])
    if session is not None and session["agent"] and session["agent"].lower() == name.lower():
        return Identity(session_id, session["agent"])
    row = known(conn, name)
    if row["session_id"] != session_id:
        raise NotPermitted(
            f"{name[:80]!r} is the name of another session; you cannot act for it.",
            cause="A session speaks for itself only.",
            remedy="Use your own name, or none; register_agent, or `corral session register`, gives you one.",
            details={"agent_name": row["called"], "session_id": session_id},
        )
    return Identity(session_id, row["called"])


def known(conn: Connection, name: str) -> CalledSession:
    """The session that goes by a name.

    Raises:
        AgentNotFound: None does.
    """
    row = name_rows.resolve(conn, name)
    if row is None:
        raise AgentNotFound(f"There is no agent {name[:80]!r}.", cause=cause_of_name(name))
    return row


def acting_for(conn: Connection, session_id: str, caller: str, person: str) -> str | None:
    """The actor for a session, for the record: itself (None), the one whose subagent it is, or the person.

    Raises:
        NotPermitted: It is another session.
    """
    if caller == session_id:
        return None
    row = session_rows.get(conn, session_id)
    if caller != person and (row is None or row["parent_session_id"] != caller):
        raise NotPermitted(
            "You cannot act for another session.",
            cause="A session speaks for itself only.",
            remedy="Ask it with a message; `corral lock force-release` is for one that is gone.",
            details={"session_id": session_id, "caller": caller},
        )
    return caller


def refused(conn: Connection, session_id: str | None, error: NotPermitted, now: datetime) -> None:
    """Put on record that a session tried to act for another."""
    events.record(conn, now, EventKind.IDENTITY_REFUSED(cast("IdentityRefused", error.details)), session_id=session_id)


def check_name(name: str) -> str:
    """Accept a name that a session chose for itself, and return it.

    Raises:
        InvalidInput: It cannot be one, or means everybody or Corral.
    """
    if name.lower() in (EVERYBODY, SYSTEM.lower()):
        raise InvalidInput(f"{name!r} cannot be the name of an agent.", cause="It means something else.")
    return check_agent_name(name)


def unused(conn: Connection, wish: str | None) -> str:
    """The requested name if it is free, else a generated one."""
    if wish and name_rows.resolve(conn, wish) is None:
        return wish
    return agent_name(lambda name: name_rows.resolve(conn, name) is not None, new_id())


def bind(conn: Connection, session_id: str, name: str, now: datetime, **about: str | None) -> NameRow:
    """Give a session a further name, or change what is told of one it has. A name goes from a session that is over to the one
    that goes on under it, and the unread mail to it goes with it.

    Args:
        about: ``program``, ``model``, ``task_description``.

    Raises:
        InvalidInput: The name cannot be one, or means everybody.
        Conflict: A living session has it, or it is the id of another one.
    """
    session = name_rows.resolve(conn, name)
    if session is not None and session["session_id"] == session_id:
        name = session["called"]
    succeed(conn, name, freed(conn, name, session_id), session_id)
    row = name_rows.bind(conn, {"name": name, "session_id": session_id, "registered_at": iso(now), **about})
    events.record(conn, now, EventKind.AGENT_REGISTERED({"agent_name": name}), session_id=session_id)
    return row


def succeed(conn: Connection, name: str, before: Sequence[SessionRow], session_id: str) -> None:
    """A session goes on under a name: what waits for those that had it is its own, and so is what comes for them."""
    for row in before:
        message_rows.move(conn, name, row["session_id"], session_id)
        session_rows.change(conn, row["session_id"], {"heir_session_id": session_id})


def heir(conn: Connection, session_id: str) -> str:
    """The session that continues under the name of an ended one; itself, if it has not ended or there is none."""
    seen: dict[str, None] = {}
    while session_id not in seen:
        seen[session_id] = None
        row = session_rows.get(conn, session_id)
        if row is None or row["status"] != SessionStatus.DISCONNECTED or row["heir_session_id"] is None:
            break
        session_id = row["heir_session_id"]
    return session_id


def freed(conn: Connection, name: str, session_id: str) -> list[SessionRow]:
    """Free a name for a session that goes on under it; returns the sessions that had it, whose unread mail is to follow.

    Raises:
        InvalidInput: It cannot be one, or means everybody or Corral.
        Conflict: A living session has it, or it is the id of another one.
    """
    check_name(name)
    before = [row for row in name_rows.holders(conn, name) if row["session_id"] != session_id]
    for row in before:
        if row["status"] != SessionStatus.DISCONNECTED or row["session_id"].lower() == name.lower():
            raise Conflict(
                f"The name {name} belongs to another session.",
                cause="What is sent to the name is meant for that session.",
                remedy="Choose another name, or none: then one is found for you.",
                details={"agent_name": name, "status": row["status"]},
            )
    for row in before:
        if row["agent_name"].lower() == name.lower():
            numbered = (f"{name}.{number}" for number in itertools.count(1))
            former = next(candidate for candidate in numbered if not name_rows.holders(conn, candidate))
            session_rows.change(conn, row["session_id"], {"agent_name": former})
    return before


def recipients(
    conn: Connection,
    sender_session_id: str | None,
    addressed: Sequence[tuple[str, RecipientRole]],
    roles: Roles,
    now: datetime,
) -> list[Addressee]:
    """The sessions that a message goes to, each once, under its first role.

    Args:
        addressed: Agent names in any case, session ids, members and roles of the team, ``all``; each with how it is addressed.

    Raises:
        InvalidInput: There is nobody at all.
        RecipientNotFound: An address means nobody.
    """
    addressees: dict[str, Addressee] = {}
    unknown: list[str] = []
    for address, role in addressed:
        sessions = _sessions(conn, sender_session_id, address.strip(), roles, now)
        if sessions is None:
            unknown.append(address)
        for row in sessions or ():
            # An agent's mailbox that no session holds waits for the next one.
            status = SessionStatus.IDLE if row["agent_type"] == SEAT else row["status"]
            addressee: Addressee = {
                "session_id": row["session_id"], "name": row["called"], "role": role.value, "status": status,
            }  # fmt: skip
            addressees.setdefault(row["session_id"], addressee)
    if unknown:
        raise _not_found(conn, unknown)
    if not addressees:
        raise InvalidInput(
            "The message has no recipient.",
            cause="No other session is active." if addressed else "to, cc and bcc are empty.",
            remedy="Name at least one agent; discover_agents, or `corral session list`, shows who is there.",
        )
    if len(addressees) > MOST_RECIPIENTS:
        raise InvalidInput(
            f"{len(addressees)} recipients are too many.", remedy=f"At most {MOST_RECIPIENTS} are possible."
        )
    return list(addressees.values())


def _sessions(
    conn: Connection, sender: str | None, address: str, roles: Roles, now: datetime
) -> list[CalledSession] | None:
    """The session that a name means; None: no known one.

    A known role that no session has taken means nobody. Mail to a member of the team waits until that member comes.
    """
    if address.lower() == EVERYBODY:
        others = (row for row in session_rows.live(conn) if row["session_id"] != sender)
        return [name_rows.called(row, row["agent_name"]) for row in others]
    if not address:
        return None
    holders = mailbox_holders(conn, address)
    if holders:
        return holders
    members = roles(address) or ()
    present = [row for name in members for row in mailbox_holders(conn, name)]
    return present or [make(conn, name, now) for name in members if name.lower() == address.lower()] or None


def _not_found(conn: Connection, unknown: list[str]) -> RecipientNotFound:
    living = [row["agent_name"] for row in session_rows.live(conn)]
    names = ", ".join(repr(name[:80]) for name in unknown[:20])
    suggestions = difflib.get_close_matches(unknown[0], living, 3)
    return RecipientNotFound(
        f"Nobody goes by {names}; nothing was sent.",
        cause=cause_of_name("".join(unknown)),
        remedy=(f"Did you mean {', '.join(suggestions)}? " if suggestions else "")
        + "discover_agents, or `corral session list`, shows who is there.",
        details={"unknown": [name[:128] for name in unknown[:100]], "known": living[:50]},
    )


# -- Agents' mailboxes: mail to an agent reaches the worker that does its tasks, and waits for the next one while
# there is none.
#
# A worker has a session and a name of its own with each attempt, and several may be at work for one agent. So mail to
# the agent goes to each of them, and where there is none to the agent's mailbox: a session that no process has.

SEAT = "seat"
"""The ``agent_type`` of an agent's mailbox: a session that no process has."""


def mailbox_holders(conn: Connection, name: str) -> list[CalledSession]:
    """The sessions that a name means, with ``called``: the living session of that name, and those at work for the agent of that
    name; if there is none, the last session of that name, or the agent's mailbox."""
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
