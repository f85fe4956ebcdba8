"""SQL for handoffs: what one session leaves for the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, cast, exists, insert, or_, select

from corral.core.errors import InvalidInput, NotFound
from corral.core.states import SessionStatus
from corral.store.engine.fetch import fetch_all, fetch_first, fetch_one, has_any
from corral.store.rows.records import HandoffRow
from corral.store.schema import agent_sessions
from corral.store.schema_coordination import agent_names, handoffs

_h = handoffs.c
_LISTS = (_h.completed_work, _h.in_progress, _h.decisions, _h.next_steps, _h.relevant_files)
_HAS_CONTENT = or_(_h.automatic.is_(False), *(cast(column, Text) != "[]" for column in _LISTS))
"""A session wrote it, or Corral did and it names more than the session itself."""


def create(conn: Connection, values: Mapping[str, Any]) -> HandoffRow:
    """Insert a handoff; ``values`` holds every column that is not null, but for ``seq``."""
    return fetch_one(conn, insert(handoffs).values(**values).returning(handoffs), HandoffRow)


def get(conn: Connection, handoff_id: str) -> HandoffRow:
    """One handoff, by its id or the beginning of it.

    Raises:
        NotFound: No such handoff.
        InvalidInput: The beginning fits several.
    """
    query = select(handoffs).where(_h.handoff_id.startswith(handoff_id, autoescape=True)).limit(2)
    rows = fetch_all(conn, query, HandoffRow) if handoff_id else []
    if not rows:
        raise NotFound(f"There is no handoff {handoff_id[:80]!r}.", remedy="`corral handoff list` shows them all.")
    if len(rows) > 1:
        raise InvalidInput(f"Several handoffs begin with {handoff_id[:80]!r}.", remedy="Give more of the id.")
    return rows[0]


def listing(conn: Connection, agent_name: str | None, limit: int, *, of: str | None = None) -> list[HandoffRow]:
    """Handoffs, newest first; those of one agent, by its session's name or another that it goes by, or of a session."""
    query = select(handoffs).order_by(_h.seq.desc()).limit(limit)
    if agent_name is not None:
        query = query.where(_named(agent_name))
    if of is not None:
        own = select(agent_sessions.c.agent_name).where(agent_sessions.c.session_id == of)
        bound = select(agent_names.c.name).where(agent_names.c.session_id == of)
        query = query.where(or_(_h.session_id == of, _h.agent_name.in_(own), _h.agent_name.in_(bound)))
    return fetch_all(conn, query, HandoffRow)


def own(conn: Connection, session_id: str) -> HandoffRow | None:
    """The last handoff that a session wrote itself."""
    return _newest(conn, _h.session_id == session_id, _h.automatic.is_(False))


def of_name(conn: Connection, agent_name: str, *, besides: str) -> HandoffRow | None:
    """The newest handoff under a name that has content, from another session that is over."""
    return _newest(conn, _named(agent_name), *_from_the_past(besides))


def of_task(conn: Connection, task_id: str, *, besides: str) -> HandoffRow | None:
    """The newest handoff of an earlier attempt at a task that has content."""
    attempts = select(agent_sessions.c.session_id).where(agent_sessions.c.task_id == task_id)
    return _newest(conn, _h.session_id.in_(attempts), *_from_the_past(besides))


def of_place(conn: Connection, worktree: str | None, branch: str | None, *, besides: str) -> HandoffRow | None:
    """The newest handoff from a worktree or a branch that has content, from another session that is over."""
    here = [column == value for column, value in ((_h.worktree, worktree), (_h.branch, branch)) if value]
    return _newest(conn, or_(*here), *_from_the_past(besides)) if here else None


def was_followed(conn: Connection, handoff: HandoffRow, *, besides: str, passers: Sequence[str]) -> bool:
    """Whether another session that began in a handoff's worktree since its writer ended goes on with it.

    That is one that still lives, or one that was a task's: the task tells what became of it. One that ended otherwise left
    a newer handoff, or nothing that somebody could go on with instead.

    Args:
        passers: The ``agent_type`` of those who are given no handoff, and so do not count.
    """
    query = select(agent_sessions.c.ended_at).where(agent_sessions.c.session_id == handoff["session_id"])
    ended_at = conn.execute(query).scalar()
    follower = select(agent_sessions.c.session_id).where(
        agent_sessions.c.status.in_(SessionStatus.values()),  # with the next line: only what is at the end of an index
        agent_sessions.c.last_heartbeat > ended_at,
        agent_sessions.c.started_at > ended_at,
        agent_sessions.c.worktree == handoff["worktree"],
        agent_sessions.c.parent_session_id.is_(None),
        agent_sessions.c.agent_type.not_in(list(passers)),
        agent_sessions.c.session_id != besides,
        or_(agent_sessions.c.status != SessionStatus.DISCONNECTED, agent_sessions.c.task_id.is_not(None)),
    )
    return has_any(conn, follower)


def _named(agent_name: str) -> ColumnElement[bool]:
    bound = select(agent_names.c.session_id).where(agent_names.c.folded == agent_name.lower())
    own = select(agent_sessions.c.session_id).where(agent_sessions.c.agent_name == agent_name)
    return or_(_h.agent_name == agent_name, _h.session_id.in_(bound), _h.session_id.in_(own))


def _from_the_past(besides: str) -> tuple[ColumnElement[bool], ...]:
    is_over = exists().where(
        agent_sessions.c.session_id == _h.session_id, agent_sessions.c.status == SessionStatus.DISCONNECTED
    )
    return (_h.session_id != besides, is_over, _HAS_CONTENT)


def _newest(conn: Connection, *conditions: ColumnElement[bool]) -> HandoffRow | None:
    return fetch_first(conn, select(handoffs).where(*conditions).order_by(_h.seq.desc()).limit(1), HandoffRow)
