"""SQL for the versions of agent definitions."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, insert, select

from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared
from corral.store.rows.agents import AgentVersionRow
from corral.store.schema_project import agent_versions

_v = agent_versions.c
_BY_HASH = Prepared[AgentVersionRow](
    select(agent_versions).where(_v.agent == bindparam("which"), _v.content_hash == bindparam("hash"))
)


def of_agent(conn: Connection, agent: str) -> list[AgentVersionRow]:
    """The versions of an agent, the oldest first.

    Args:
        agent: Its name without case.
    """
    return fetch_all(conn, select(agent_versions).where(_v.agent == agent).order_by(_v.seq), AgentVersionRow)


def by_hash(conn: Connection, agent: str, content_hash: str) -> AgentVersionRow | None:
    """The version with this content."""
    return _BY_HASH.first(conn, {"which": agent, "hash": content_hash})


def add(conn: Connection, row: AgentVersionRow) -> None:
    """Insert a version."""
    conn.execute(insert(agent_versions).values(**row))
