"""SQL for the identity of a database: which repository it belongs to, and the paths in it that follow a move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Table, delete, insert, select, update

from corral.core.states import OPEN_MERGES
from corral.store.engine.fetch import fetch_first
from corral.store.rows.records import Identity, IdentityRow
from corral.store.schema import agent_sessions, file_locks, receipts
from corral.store.schema_project import project_identity
from corral.work.merges.store import merges
from corral.work.tasks.store import tasks
from corral.work.worktrees import store as worktree_rows

_FOLLOWING: tuple[tuple[Table, Column[Any], Column[Any]], ...] = (
    (agent_sessions, agent_sessions.c.session_id, agent_sessions.c.worktree),
    (agent_sessions, agent_sessions.c.session_id, agent_sessions.c.cwd),
    (file_locks, file_locks.c.lock_id, file_locks.c.checkout),
    (receipts, receipts.c.receipt_id, receipts.c.log),
)
"""Besides the worktrees: table, key, and the column with an absolute path, which may be in the repository."""


def get(conn: Connection) -> IdentityRow | None:
    """The repository that the database belongs to; None: the database is new."""
    return fetch_first(conn, select(project_identity), IdentityRow)


def bind(conn: Connection, values: Identity) -> None:
    """Store the repository that the database belongs to, in place of the previous one."""
    conn.execute(delete(project_identity))
    conn.execute(insert(project_identity).values(id=1, **values))


def is_idle(conn: Connection) -> bool:
    """Whether the database holds nothing that a daemon would execute, land or touch."""
    busy = tasks.count_open(conn) or merges.listing(conn, OPEN_MERGES, limit=1) or worktree_rows.listing(conn)
    return not busy


def follow_move(conn: Connection, old: Path, new: Path) -> None:
    """Rewrite the paths of sessions, locks and logs that lay below the repository's former place."""
    for table, key, column in _FOLLOWING:
        for row in conn.execute(select(key, column).where(column.is_not(None))).all():
            path = moved(row[1], old, new)
            if path != row[1]:
                conn.execute(update(table).where(key == row[0]).values({column.name: path}))


def moved(text: str, old: Path, new: Path) -> str:
    """A path as text, as it is after ``old`` was moved to ``new``; unchanged if it lies elsewhere."""
    if text == str(old):
        return str(new)
    return f"{new}/{text[len(str(old)) + 1 :]}" if text.startswith(f"{old}/") else text
