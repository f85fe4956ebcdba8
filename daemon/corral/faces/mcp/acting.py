"""Who acts in a call of Agent Mail's tools, and in which project: the call names both.

A session acts under its own names, and a connection that carries several agents acts as any of them. A caller that names another
session is refused, and recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator
from sqlalchemy import Connection

from corral.coordination.mail import addresses
from corral.coordination.mail.addresses import Identity
from corral.coordination.projects import check_project
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.claims import refusals
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import names
from corral.core.asgi import utf8
from corral.core.errors import NotPermitted
from corral.faces.mcp.calls import Call, current
from corral.store.rows.sessions import CalledSession

T = TypeVar("T")
Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""An optional text; null is empty, so that the definition stays short."""
Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else () if value is None else value),
]
"""A list of texts; a single text is a list with one item."""


async def act(project_key: str, name: str, operation: Callable[[Connection, Identity, datetime], T]) -> T:
    """Run a write as the session that calls, under one of its names, or as an agent of its connection; an empty name is its own.

    Raises:
        ProjectNotFound: Another project is meant.
        NotPermitted: The name is another session's.
        Unidentified: The call does not show who makes it.
    """
    call = current.get()
    services, now = call.services, call.services.now()
    if project_key:
        await services.work(lambda: check_project(services, project_key))
    async with refusals(services, call.acting):
        answer = await call.write(
            lambda conn, me: operation(conn, _identity(conn, call, me.session_id, name, now), now)
        )
    services.changes.announce()
    return answer


def is_agent_of(connection: str, row: CalledSession) -> bool:
    """Whether a session is one of the further agents that a connection carries."""
    return bool(row["parent_session_id"] == connection and row["agent_type"] in session_registry.CONNECTIONS)


def _identity(conn: Connection, call: Call, session_id: str, name: str, now: datetime) -> Identity:
    """The identity that a call acts as: its own session, or the agent of the same connection that it names."""
    row = addresses.known(conn, name) if name and session_id == call.connection else None
    if row is not None and is_agent_of(session_id, row):
        session_registry.alive(conn, Arrival(row["session_id"], row["agent_type"]), now)
        return Identity(row["session_id"], row["called"])
    try:
        return addresses.identity(conn, session_id, name or None)
    except NotPermitted as error:
        if not call.token:
            raise
        remedy = (
            "If it is yours, pass the `registration_token` with which it was registered; else use a name of your own."
        )
        raise NotPermitted(error.message, cause=error.cause, remedy=remedy, details=error.details) from error


async def look(project_key: str, operation: Callable[[Connection], T], *, searched: str | None = None) -> T:
    """Run a query that anybody in the project may.

    Args:
        searched: The table that is searched by words, if one is.

    Raises:
        ProjectNotFound: Another project is meant.
    """
    services = current.get().services
    if project_key:
        await services.work(lambda: check_project(services, project_key))
    return await (services.store.read(operation) if searched is None else services.store.search(searched, operation))


def known_as(conn: Connection, holders: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The name to show for each session: the first registered one; its own if it registered that, or none.

    Args:
        holders: Sessions, each with its own name.
    """
    known: dict[str, str] = {}
    for session_id, own in dict(holders).items():
        registered = [row["name"] for row in names.of_session(conn, session_id)]
        known[session_id] = own if own in registered or not registered else registered[0]
    return known


def contents(rows: list[dict[str, Any]], more: str | None = None) -> Any:
    """A list as a resource: JSON; where it was cut, a second content says how to ask for the rest."""
    if more is None:
        return json.dumps(rows)
    from fastmcp.resources import ResourceContent, ResourceResult

    return ResourceResult(
        [ResourceContent(json.dumps(rows), mime_type="application/json"), ResourceContent(_left_out(more))]
    )


def _left_out(more: str) -> str:
    return f"More was left out: {more}."


def listed(rows: list[dict[str, Any]], more: str | None = None) -> Any:
    """A list as Agent Mail's server answers it: as text, and as ``{"result": [...]}``.

    Args:
        more: Where the list was cut, how to ask for the rest.
    """
    from fastmcp.tools import ToolResult  # costs a second where no MCP client ever came

    rows = utf8(rows)
    if more is None:
        return ToolResult(content=[*rows] if rows else "[]", structured_content={"result": rows})
    from mcp.types import TextContent

    texts = (json.dumps(rows), note := _left_out(more))
    return ToolResult(
        content=[TextContent(type="text", text=text) for text in texts],
        structured_content={"result": rows, "left_out": note},
    )
