"""One tool call: who made it, for which session it acts, and in which format its errors are.

The caller comes with the connection. A bridge inside Claude Code serves the session whose hooks came through it last; any other
bridge is a session of its own, which ends with the connection. Over HTTP a client is known by a token that only it got: as
``Mcp-Session-Id`` from ``initialize``, or as ``registration_token`` from the call that registered it. Without one it is nobody.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection

from corral.config.paths import find_checkout
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import session_end, tokens
from corral.coordination.sessions.actor import Actor, Speaker, speaker
from corral.coordination.sessions.claims import NOBODY
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.asgi import utf8
from corral.core.errors import CorralError, DatabaseUnavailable, InvalidInput, Unidentified
from corral.core.failures import failure
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.states import SessionStatus
from corral.faces.mcp.replays import Replays
from corral.observe.audit import requests as audit_requests
from corral.runners.process import start_time

T = TypeVar("T")
Function = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Call(Actor):
    """Where a call comes from; empty where that is not said.

    Attributes:
        replays: Answers of earlier calls, by their idempotency key.
        bridge: The bridge's process id.
        session: The Claude Code session that the bridge's environment names: a first guess (stale after ``/clear``).
        connection: The id of the connection's own session: a bridge chooses it, over HTTP the token proves it.
        token: That token; empty for a bridge.
        proven: Another session, whose token is an argument of this call.
        proof: That token.
        client: The process that started the bridge.
        cwd: Where the bridge was started.
        use_id: Claude Code's id of this tool call.
        settled: The session that the processes at the other end prove; empty: they are a person's, or nothing shows them.
    """

    replays: Replays
    bridge: str = ""
    session: str = ""
    connection: str = ""
    token: str = field(default="", repr=False)
    proven: str = ""
    proof: str = field(default="", repr=False)
    client: int | None = None
    cwd: str = ""
    use_id: str = ""
    settled: str = ""

    @property
    def actor(self) -> str | None:
        """The session that acts; None: the call does not show who makes it."""
        if self.settled:
            return self.settled
        known = self.services.runtime.actor_of(self.use_id) or self.services.runtime.served_by(self.bridge)
        return known or self.session or self.proven or self.connection or None

    @property
    def acting(self) -> str:
        """The session that acts.

        Raises:
            Unidentified: The call does not show who makes it.
        """
        if self.actor is None:
            raise Unidentified("This call does not show who makes it, and it is only done for somebody.")
        return self.actor

    @property
    def is_over_http(self) -> bool:
        """Whether no process proves who calls, so that a token has to."""
        return not (self.settled or self.bridge or self.session or (self.connection and not self.token))

    def speaker(self, conn: Connection, now: datetime) -> Speaker:
        """Find, or register, the session that acts: in the transaction of what it does.

        Raises:
            Unidentified: The call does not show who makes it.
        """
        who = self.acting
        if who in (self.connection, self.proven):
            known = session_rows.get(conn, who)
            if known is None or known["status"] == SessionStatus.DISCONNECTED:
                session_end.arrive(conn, self.arrival(who), now, self.services.offer_again)
        if self.proven:  # the connection that carries it is alive, too
            session_rows.touch(conn, self.connection, iso(now))
        return speaker(conn, who, now)

    def arrival(self, session_id: str) -> Arrival:
        """The session of this connection, which lives as long as its bridge; over HTTP, as long as it is heard of."""
        if self.token:
            return Arrival(session_id=session_id, agent_type=session_registry.BY_HTTP)
        pid = int(self.bridge) if self.bridge.isdigit() else None
        checkout = find_checkout(Path(self.cwd)) if self.cwd else None
        ours = checkout is not None and checkout.common_dir == self.services.project.common_dir
        return Arrival(
            session_id=session_id,
            agent_type=session_registry.CONNECTION,
            cwd=self.cwd or None,
            worktree=str(checkout.top) if ours and checkout else None,
            client_pid=pid,
            client_started=start_time(pid) if pid else None,
        )


current: ContextVar[Call] = ContextVar("call")
"""Set by :mod:`corral.faces.mcp.mount` for every request."""


async def show_token(token: str) -> None:
    """Take an argument of the current call for the proof of who makes it; one that proves nothing changes nothing."""
    call = current.get()
    session_id = tokens.session_of(token)
    if session_id is None or session_id == call.connection or not call.is_over_http:
        return
    row = await call.services.store.read(session_rows.get, session_id)
    if row is None or tokens.was_closed(row):
        return
    if call.connection:
        current.set(replace(call, proven=session_id, proof=token))
    else:
        current.set(replace(call, connection=session_id, token=token))


def identified() -> Call:
    """The current call, for what is done for nobody in particular but changes something.

    Raises:
        Unidentified: It does not show who makes it.
    """
    call = current.get()
    _ = call.acting
    return call


def newcomer() -> Call:
    """The current call, with a session and a token of its own if nobody has made it so far: it registers."""
    call = current.get()
    if call.actor is None:
        token = tokens.make_token()
        call = replace(call, connection=tokens.session_of(token) or "", token=token)
        current.set(call)
    return call


@dataclass(frozen=True)
class Family:
    """The error format of a family of tools; ``fails``: an MCP error, not an ordinary answer."""

    tell: Callable[[CorralError], Payload]
    fails: bool


def refusal(error: CorralError) -> Payload:
    """An error in the format of the coordinator's tools: ``{"success": false, "error": name, "message", "cause", …}``."""
    wire: Mapping[str, Any] = error.to_wire()["error"]
    return {
        "success": False,
        "error": DatabaseUnavailable.name if isinstance(error, DatabaseUnavailable) else wire["name"],
        **{key: wire[key] for key in ("message", "cause", "remedy", "details")},
    }


def complaint(error: CorralError) -> Payload:
    """An error in the format of Agent Mail's tools: ``{"error": {type, message, recoverable, data}}``."""
    return {
        "error": {
            "type": "INVALID_ARGUMENT" if error.name == InvalidInput.name else error.name.upper(),
            "message": f"{error.message} {error.cause} {error.remedy}",
            "recoverable": error.status < 500,
            "data": error.details,
        }
    }


COORDINATOR = Family(refusal, fails=False)
AGENT_MAIL = Family(complaint, fails=True)
FAMILIES: dict[Function, Family] = {}
"""The family of each tool, and of each resource with the same error format."""


def tools_in(module: str) -> list[Function]:
    """The tools of a module, in its order."""
    return [tool for tool in FAMILIES if tool.__module__ == module]


def answered(family: Family, error: CorralError) -> Payload:
    """Answer a call with what went wrong.

    Raises:
        ToolError: The family's errors are MCP errors.
    """
    answer = family.tell(error)
    if family.fails:
        from fastmcp.exceptions import ToolError  # costs a second where no MCP client ever came

        raise ToolError(json.dumps(answer))
    return answer


def _tool(family: Family, function: Function) -> Function:
    is_tool = not function.__module__.rpartition(".")[2].startswith("resources")  # reads are not audited

    @functools.wraps(function)
    async def run(*args: Any, **kw: Any) -> Any:
        try:
            answer = await function(*args, **kw)
            if is_tool:
                _note(function.__name__, kw, answer)
            return utf8(answer) if isinstance(answer, dict) else answer
        except CorralError as error:
            known = error
        except Exception as error:  # noqa: BLE001 - the edge of a tool: logged, and answered
            known = failure("MCP", function.__name__, error)
        if is_tool:
            _note(function.__name__, kw, known)
        return answered(family, known)

    FAMILIES[run] = family
    return run


def _note(tool: str, arguments: Mapping[str, Any], answer: Any) -> None:
    """Note a tool call for the audit."""
    call = current.get()
    audit_requests.note_call(call.services, tool, arguments, answer, call.actor or NOBODY, call.use_id)


coordinator_tool = functools.partial(_tool, COORDINATOR)
"""Make a function a tool of the coordinator's family."""
mail_tool = functools.partial(_tool, AGENT_MAIL)
"""Make a function a tool of Agent Mail's family."""
