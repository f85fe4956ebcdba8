"""A commit that is about to be made: which of its files other sessions hold in the same checkout."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.locks.keys import ancestors, keys_overlap, literal_key, stored_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.sessions.registry import CONNECTIONS, kin_of
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.store.rows.sessions import HeldLock


def held_by_others(
    conn: Connection, paths: Sequence[str], checkout: str, session_id: str, now: datetime, *, fold: bool
) -> list[Payload]:
    """The files of a commit that sessions other than its author's hold in this checkout.

    Locks of a session's subagents and of its parent count as its own, those of another subagent do not. A lock in another
    worktree does not count: its file is another one.

    Args:
        paths: Repository-relative.
        checkout: The top folder, as locks name it.
        session_id: The session that commits, or the person's.
        fold: Whether the file system ignores case.

    Returns:
        ``{path, held_by, session_id, task, automatic, expires_at}`` for each, in the order of ``paths``.
    """
    rows = lock_rows.others_in_checkout(conn, checkout, _family(conn, session_id), iso(now))
    plain = {row["match_key"]: row for row in rows if not row["is_pattern"]}
    globs = [(stored_key(row), row) for row in rows if row["is_pattern"]]
    held = []
    for path in paths if rows else ():
        key = literal_key(path, fold=fold)
        holding = (plain[match_key] for match_key in (key.match_key, *ancestors(key.match_key)) if match_key in plain)
        row = next(holding, None) or next((row for glob, row in globs if keys_overlap(key, glob)), None)
        if row is not None:
            held.append(_held_file(path, row))
    return held


def _family(conn: Connection, session_id: str) -> list[str]:
    """A session, the one that it works for, and its own subagents.

    Its siblings are not among them, as for an edit; nor are other agents of the same connection.
    """
    me = session_rows.get(conn, session_id)
    if me is None:
        return [session_id]
    below = [] if me["agent_type"] in CONNECTIONS else session_rows.family(conn, session_id)
    return [session_id, *kin_of(me), *below]


def _held_file(path: str, row: HeldLock) -> Payload:
    return {
        "path": path,
        "held_by": row["agent_name"],
        "session_id": row["session_id"],
        "task": row["current_task"] or row["reason"],
        "automatic": row["automatic"],
        "expires_at": row["expires_at"],
    }
