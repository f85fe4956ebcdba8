"""SQL for improvements of agent definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, exists, insert, select, update

from corral.store.engine.fetch import fetch_all, fetch_first
from corral.store.rows.agents import ImprovementRow
from corral.store.schema_project import agent_choices, agent_improvements

_i = agent_improvements.c


def add(conn: Connection, row: ImprovementRow) -> None:
    """Insert an improvement."""
    conn.execute(insert(agent_improvements).values(**row))


def running(conn: Connection) -> list[ImprovementRow]:
    """The improvements that have not ended."""
    query = select(agent_improvements).where(_i.ended_at.is_(None)).order_by(_i.created_at)
    return fetch_all(conn, query, ImprovementRow)


def newest(conn: Connection, agent: str) -> ImprovementRow | None:
    """The newest improvement of an agent."""
    query = select(agent_improvements).where(_i.agent == agent).order_by(_i.created_at.desc()).limit(1)
    return fetch_first(conn, query, ImprovementRow)


def undecided(conn: Connection, since: str) -> list[ImprovementRow]:
    """The newest improvement of each agent, if it ended after an instant, and nobody rolls its version out since."""
    later, c = agent_improvements.alias("later"), agent_choices.c
    is_last = ~exists().where(later.c.agent == _i.agent, later.c.created_at > _i.created_at)
    is_tried = exists().where(c.agent == _i.agent, c.content_hash == _i.new_hash, c.created_at > _i.ended_at)
    query = select(agent_improvements).where(_i.ended_at > since, is_last, ~is_tried).order_by(_i.ended_at)
    return fetch_all(conn, query, ImprovementRow)


def advance(conn: Connection, improvement_id: str, from_state: str, values: Mapping[str, Any]) -> bool:
    """Change an improvement; False: it is in another state."""
    where = (_i.improvement_id == improvement_id, _i.state == from_state)
    return conn.execute(update(agent_improvements).where(*where).values(**values)).rowcount == 1
