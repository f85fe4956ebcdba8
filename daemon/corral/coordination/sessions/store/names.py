"""SQL for names: the sessions that an address stands for. A session has its own name, and may have further ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, case, func, insert, literal, null, or_, select, true, union_all, update

from corral.core.states import SessionStatus
from corral.store.engine.fetch import fetch_all, fetch_first, fetch_one
from corral.store.engine.prepared import Prepared
from corral.store.rows import columns_of
from corral.store.rows.sessions import CalledSession, FurtherName, MeantSession, NamedSession, NameRow, SessionRow
from corral.store.schema import agent_sessions
from corral.store.schema_coordination import agent_names

_its = agent_sessions.c
_SHOWN = columns_of(agent_sessions, NamedSession)
"""Columns of a session that an address stands for."""
_CANDIDATES = Prepared[MeantSession](
    union_all(
        select(literal("own").label("how"), null().label("bound"), *_SHOWN).where(
            _its.agent_name == bindparam("address")
        ),
        select(literal("bound"), agent_names.c.name, *_SHOWN)
        .join(agent_names, agent_names.c.session_id == _its.session_id)
        .where(agent_names.c.folded == bindparam("folded")),
        select(literal("id"), null(), *_SHOWN).where(_its.session_id == bindparam("address")),
        select(literal("at work"), null(), *_SHOWN).where(
            func.lower(_its.agent) == bindparam("folded"),
            _its.status.in_([bindparam("active", SessionStatus.ACTIVE), bindparam("idle", SessionStatus.IDLE)]),
        ),
    )
)
"""All sessions that an address may stand for, each part by its own index."""
_BY_FOLDED_NAME = Prepared[NamedSession](
    select(*_SHOWN)
    .where(func.lower(_its.agent_name) == bindparam("folded"))
    .order_by((_its.status == SessionStatus.DISCONNECTED), _its.last_heartbeat.desc())
    .limit(1)
)

_FURTHER = (
    select(agent_names.c.session_id, agent_names.c.name)
    .join(agent_sessions, agent_sessions.c.session_id == agent_names.c.session_id)
    .where(agent_names.c.name != agent_sessions.c.agent_name)
    .order_by(agent_names.c.registered_at)
)
_FURTHER_OF = Prepared[FurtherName](_FURTHER.where(agent_names.c.session_id == bindparam("which")))


def resolve(conn: Connection, address: str) -> CalledSession | None:
    """The session that a name means: the one with that name, or else the latest that works for the agent of that name."""
    going_by, workers = candidates(conn, address)
    if going_by is None or going_by["status"] == SessionStatus.DISCONNECTED:
        return next(iter(workers), going_by)
    return going_by


def candidates(conn: Connection, address: str) -> tuple[CalledSession | None, list[CalledSession]]:
    """The sessions that a name may stand for.

    A living session's name comes first: nobody gets its mail by taking the name for an id. A name that was bound comes before
    the own name of another session that is spelled alike but for its case.

    Returns:
        The session that goes by it, in any case, or has it as its id; and the living sessions of the workers that do the tasks
        of the agent of that name, the latest first.
    """
    parameters = {"address": address, "folded": address.lower()}
    matches: dict[str, list[MeantSession]] = {"own": [], "bound": [], "id": [], "at work": []}
    for row in _CANDIDATES.all(conn, parameters):
        matches[row["how"]].append(row)
    going_by = [*matches["own"], *matches["bound"]]
    living = [row for row in going_by if row["status"] != SessionStatus.DISCONNECTED]
    best = [*living, *matches["id"], *going_by]
    if best:
        session: CalledSession | None = called(best[0], best[0]["bound"] or best[0]["agent_name"])
    else:
        folded = _BY_FOLDED_NAME.first(conn, parameters)
        session = called(folded, folded["agent_name"]) if folded is not None else None
    workers = sorted(matches["at work"], key=lambda worker: str(worker["started_at"]), reverse=True)
    return session, [called(worker, str(worker["agent"])) for worker in workers]


def called(session: NamedSession, name: str) -> CalledSession:
    """A session under one of its names."""
    return {**session, "called": name}


def holders(conn: Connection, name: str) -> list[SessionRow]:
    """Every session that goes by a name, in any case, or has it as its id."""
    sessions, folded = agent_sessions.c, name.lower()
    bound_to = select(agent_names.c.session_id).where(agent_names.c.folded == folded)
    means = or_(
        sessions.session_id == name, func.lower(sessions.agent_name) == folded, sessions.session_id.in_(bound_to)
    )
    return fetch_all(conn, select(agent_sessions).where(means), SessionRow)


def bound(conn: Connection, name: str) -> NameRow | None:
    """A name that was bound, in any case."""
    return fetch_first(conn, select(agent_names).where(agent_names.c.folded == name.lower()), NameRow)


def bind(conn: Connection, values: Mapping[str, Any]) -> NameRow:
    """Bind a name to a session, or update the details of its name; ``values``: all columns but ``folded``."""
    its, folded = agent_names.c, str(values["name"]).lower()
    began = case((its.session_id == values["session_id"], its.registered_at), else_=values["registered_at"])
    changed = update(agent_names).where(its.folded == folded).values(**{**values, "registered_at": began})
    row = fetch_first(conn, changed.returning(agent_names), NameRow)
    added = insert(agent_names).values(**values, folded=folded).returning(agent_names)
    return row if row is not None else fetch_one(conn, added, NameRow)


def rebind(conn: Connection, name: str, session_id: str) -> None:
    """Let a name that was bound, if it was, mean another session."""
    condition = agent_names.c.folded == name.lower()
    conn.execute(update(agent_names).where(condition).values(session_id=session_id))


def by_session(conn: Connection, session_ids: Sequence[str] = ()) -> dict[str, list[str]]:
    """The names that sessions go by beside their own, of these or of all, in the order in which they were registered."""
    further: dict[str, list[str]] = {}
    if len(session_ids) == 1:
        rows = _FURTHER_OF.all(conn, {"which": session_ids[0]})
    else:
        of_these = agent_names.c.session_id.in_(list(session_ids)) if session_ids else true()
        rows = fetch_all(conn, _FURTHER.where(of_these), FurtherName)
    for row in rows:
        further.setdefault(row["session_id"], []).append(row["name"])
    return further


def of_session(conn: Connection, session_id: str) -> list[NameRow]:
    """The names that a session registered, its own too where it did, the latest last."""
    query = select(agent_names).where(agent_names.c.session_id == session_id).order_by(agent_names.c.registered_at)
    return fetch_all(conn, query, NameRow)
