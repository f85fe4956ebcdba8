"""SQL for what a session left in other tables: its events, the tasks and merge requests that they name, its name."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select

from corral.core.states import WorktreeState
from corral.store.engine.fetch import fetch_all
from corral.store.rows.merges import MergeRow
from corral.store.rows.records import EventRow
from corral.store.rows.sessions import SessionRow
from corral.store.rows.tasks import StoredTask
from corral.store.schema import DEED, events, merge_requests, tasks, worktrees
from corral.store.schema_coordination import agent_names

REMEMBERED = 1000
"""The last events of a session that are looked at."""


def events_of(conn: Connection, session_ids: Sequence[str]) -> list[EventRow]:
    """The last events of some sessions by which something was done, oldest first."""
    query = select(events).where(events.c.session_id.in_(session_ids), DEED).order_by(events.c.event_id.desc())
    return fetch_all(conn, query.limit(REMEMBERED), EventRow)[::-1]


def tasks_of(conn: Connection, task_ids: Collection[str]) -> list[StoredTask]:
    """Tasks by their ids, in the order in which they were submitted."""
    query = select(tasks).where(tasks.c.task_id.in_(task_ids)).order_by(tasks.c.seq)
    return fetch_all(conn, query, StoredTask) if task_ids else []


def merges_of(conn: Connection, merge_ids: Collection[str]) -> list[MergeRow]:
    """Merge requests by their ids, in the order in which they were submitted."""
    query = select(merge_requests).where(merge_requests.c.merge_id.in_(merge_ids)).order_by(merge_requests.c.seq)
    return fetch_all(conn, query, MergeRow) if merge_ids else []


def branch_of(conn: Connection, path: str | None) -> str | None:
    """The branch of the allocated worktree at a path; None where there is none."""
    query = select(worktrees.c.branch).where(worktrees.c.path == path, worktrees.c.state != WorktreeState.REMOVED)
    return conn.execute(query.limit(1)).scalar() if path else None


def called(conn: Connection, session: SessionRow) -> str:
    """The name that a session goes by: the last that it was given, else its own."""
    query = select(agent_names.c.name).where(agent_names.c.session_id == session["session_id"])
    own = agent_names.c.name == session["agent_name"]  # it may have got both in one millisecond
    last = conn.execute(query.order_by(agent_names.c.registered_at.desc(), own.desc()).limit(1)).scalar()
    return str(last or session["agent_name"])
