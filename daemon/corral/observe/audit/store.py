"""SQL for the audit: lines are appended, and the oldest are removed by retention; nothing changes one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, delete, func, insert, or_, select, update

from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared
from corral.store.rows.records import AuditEnds, AuditEndsRow, AuditRow, SessionWork
from corral.store.schema import agent_sessions
from corral.store.schema_coordination import event_cursors
from corral.store.schema_project import audit_chain, audit_lines

READER = "audit"
"""Reads the event record; it has a place there only once there is a line."""

_ITS = audit_lines.c
_ENDS = Prepared[AuditEndsRow](select(audit_chain))
_MOVE_END = Prepared[None](update(audit_chain), "last_seq", "last_hash")
_APPEND = Prepared[None](insert(audit_lines), *_ITS.keys())
_FOLLOWING = Prepared[AuditRow](
    select(audit_lines).where(_ITS.seq > bindparam("after")).order_by(_ITS.seq).limit(bindparam("most", type_=Integer))
)
_OWN = agent_sessions.c
_WORK = Prepared[SessionWork](
    select(_OWN.session_id, _OWN.agent_name, _OWN.task_id).where(_OWN.session_id == bindparam("session"))
)


def ends(conn: Connection) -> AuditEnds | None:
    """Both ends of the chain; None before the first line."""
    return _ENDS.first(conn, {})


def newest(conn: Connection) -> tuple[int, str] | None:
    """The number and the hash of the newest stored line, whatever the record of the chain says."""
    row = conn.execute(select(_ITS.seq, _ITS.hash).order_by(_ITS.seq.desc()).limit(1)).first()
    return (int(row.seq), str(row.hash)) if row else None


def is_lost(conn: Connection) -> bool:
    """Whether lines were written although both ends of the chain are gone: lines are left, or events were written as lines."""
    if ends(conn) is not None:
        return False
    written = conn.execute(select(event_cursors.c.reader).where(event_cursors.c.reader == READER)).first()
    return written is not None or newest(conn) is not None


def append(conn: Connection, lines: Sequence[AuditRow]) -> None:
    """Append lines, of which the first follows the newest one there is; both in the caller's transaction."""
    last = lines[-1]
    newest = {"last_seq": last["seq"], "last_hash": last["hash"]}
    if _MOVE_END.change(conn, newest) == 0:
        first = next(iter(oldest(conn, 1)), lines[0])
        began = {"removed_seq": first["seq"] - 1, "removed_hash": first["previous_hash"]}
        conn.execute(insert(audit_chain).values(id=1, **began, **newest))
    _APPEND.each_of(conn, lines)


def work_of(conn: Connection, session_ids: Collection[str]) -> dict[str, SessionWork]:
    """Names and tasks of sessions, by their ids: those that are known."""
    rows = (_WORK.first(conn, {"session": session_id}) for session_id in session_ids)
    return {row["session_id"]: row for row in rows if row is not None}


def listing(
    conn: Connection,
    *,
    agent: str | None = None,
    task: str | None = None,
    action: str | None = None,
    since: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[AuditRow]:
    """Lines, the newest first.

    Args:
        agent: Only those of the agent with this name, in whatever case.
        task: Only those of the task with this id.
        action: Only this action, or those that begin with it and a dot.
        since: Only those from this instant on.
        before: Only those with a smaller number.
        limit: At most so many.
    """
    query = select(audit_lines).order_by(_ITS.seq.desc()).limit(limit)
    if agent is not None:
        query = query.where(func.lower(_ITS.agent_id) == agent.lower())
    if task is not None:
        query = query.where(_ITS.task_id == task)
    if action is not None:
        query = query.where(or_(_ITS.action == action, _ITS.action.startswith(f"{action}.", autoescape=True)))
    if since is not None:
        query = query.where(_ITS.at >= since)
    if before is not None:
        query = query.where(_ITS.seq < before)
    return fetch_all(conn, query, AuditRow)


def following(conn: Connection, seq: int, limit: int) -> list[AuditRow]:
    """The lines behind a number, in order, at most ``limit``."""
    return _FOLLOWING.all(conn, {"after": seq, "most": limit})


def oldest(conn: Connection, limit: int) -> list[AuditRow]:
    """The oldest lines, in order."""
    return fetch_all(conn, select(audit_lines).order_by(_ITS.seq).limit(limit), AuditRow)


def count_before(conn: Connection, at: str) -> int:
    """How many lines are older than an instant."""
    return int(conn.execute(select(func.count()).select_from(audit_lines).where(_ITS.at < at)).scalar_one())


def remove_until(conn: Connection, seq: int, hash_: str, at: str) -> int:
    """Remove the lines up to this one, which becomes the end that the rest of the chain is verified from.

    Returns:
        How many were removed.
    """
    end: dict[str, Any] = {"removed_seq": seq, "removed_hash": hash_, "removed_at": at}
    conn.execute(update(audit_chain).where(audit_chain.c.removed_seq < seq).values(end))
    return int(conn.execute(delete(audit_lines).where(_ITS.seq <= seq)).rowcount)
