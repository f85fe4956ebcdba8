"""Registering: the name under which an agent acts, and the session behind it.

One connection may carry several agents: a client of Agent Mail keeps one for itself and all its workers. The first that
registers is the connection's own session; each further one is a session under it, with mail and reservations of its own, and
ends with the connection. Inside Claude Code a name is one more of the session's. Over HTTP each of these sessions has a token,
which only the answer to its registration tells: with it another connection of the same client goes on as that agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.mail import addresses
from corral.coordination.projects import PROJECT_ID
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import session_end, tokens
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import names as name_rows
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import InvalidInput
from corral.core.identifiers import new_id
from corral.core.payload import Payload
from corral.faces.mcp.acting import act, is_agent_of
from corral.faces.mcp.calls import Call, newcomer


class EmptyProgram(InvalidInput):
    """An agent that registers must name its program."""

    name = "empty_program"


class InvalidAgentName(InvalidInput):
    """A text that cannot be a name."""

    name = "invalid_agent_name"


async def registered(
    project_key: str, program: str, model: str, name: str, task_description: str, *, new: bool = False
) -> Payload:
    """Register the caller, and return the profile.

    Args:
        new: Take an unused name; ``name`` is only a preference.
    """
    if not program.strip():
        raise EmptyProgram("No program was named.", remedy="Say what you are, such as claude-code.")
    _check(name)
    call = newcomer()
    services = call.services
    about = {"program": program[:200], "model": model[:200], "task_description": task_description[:2000] or None}

    def enter(conn: Connection, session_id: str, now: datetime) -> Payload:
        agent_name = addresses.unused(conn, name) if new else name
        who, token = session_id, call.proof or None
        if session_id == call.connection:
            who, token = _on_connection(conn, call, agent_name, now)
        elif session_id == call.proven:
            _carry(conn, call, now)
        own = session_rows.get(conn, who)
        assert own is not None
        called = addresses.bind(conn, who, agent_name or own["agent_name"], now, **about)["name"]
        if task_description:
            session_registry.change(conn, who, {"current_task": about["task_description"]})
        return {**profile(conn, called), "registration_token": token}

    answer = await act(project_key, "", lambda conn, me, now: enter(conn, me.session_id, now))
    services.nudge("sessions")
    return answer


def _check(name: str) -> None:
    if name:
        try:
            addresses.check_name(name)
        except InvalidInput as error:
            raise InvalidAgentName(error.message, cause=error.cause, remedy=error.remedy) from error


def _carry(conn: Connection, call: Call, now: datetime) -> None:
    """Let this connection carry the agent whose token it showed: from now on it is named without it."""
    session_end.arrive(conn, call.arrival(call.connection), now, call.services.offer_again)
    session_registry.change(conn, call.proven, {"parent_session_id": call.connection})


def _on_connection(conn: Connection, call: Call, name: str, now: datetime) -> tuple[str, str | None]:
    """The session of the agent of a connection that has this name, and its token; without one, of the next agent.

    The token of an agent that registers again was told when it was new.

    Raises:
        Conflict: Another live session has the name.
    """
    known = name_rows.resolve(conn, name) if name else None
    if known is not None and known["session_id"] == call.connection:
        return call.connection, call.token or None
    if known is not None and is_agent_of(call.connection, known):
        session_registry.alive(conn, Arrival(known["session_id"], known["agent_type"]), now)
        return known["session_id"], None
    own = session_rows.get(conn, call.connection)
    assert own is not None
    if name_rows.of_session(conn, call.connection):
        token = tokens.make_token() if call.token else None
        worker_id = (token and tokens.session_of(token)) or f"{session_registry.CONNECTION}-{new_id()}"
        worker = replace(call.arrival(worker_id), agent_name=name or None, parent_session_id=call.connection)
        return session_registry.register(conn, worker, now)["session_id"], token
    if name:
        session_registry.register(conn, Arrival(call.connection, own["agent_type"], agent_name=name), now)
        # Others may still write to the former name.
        former = {"name": own["agent_name"], "session_id": call.connection, "registered_at": own["started_at"]}
        name_rows.bind(conn, former)
    return call.connection, call.token or None


def profile(conn: Connection, name: str) -> Payload:
    """An agent as Agent Mail describes one.

    Raises:
        AgentNotFound: Nobody goes by that name.
    """
    agent = addresses.known(conn, name)
    row = session_rows.get(conn, agent["session_id"])
    assert row is not None
    about: Mapping[str, Any] = name_rows.bound(conn, agent["called"]) or {}
    return {
        "id": row["session_id"],
        "name": agent["called"],
        "program": about.get("program") or row["agent_type"],
        "model": about.get("model") or "",
        "task_description": about.get("task_description") or row["current_task"] or "",
        "inception_ts": about.get("registered_at") or row["started_at"],
        "last_active_ts": row["last_heartbeat"],
        "project_id": PROJECT_ID,
        "attachments_policy": "auto",
        "registration_token": None,
        "contact_policy": "open",
        "status": session_rows.shown_status(row),
        "names": [row["agent_name"], *(bound["name"] for bound in name_rows.of_session(conn, row["session_id"])
                                       if bound["name"] != row["agent_name"])],
    }  # fmt: skip
