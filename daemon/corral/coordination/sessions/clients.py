"""Which sessions a process speaks for: those whose client is that process, or one above it.

The system says who is at the other end of the Unix socket and which processes are above it; a session's row says which process
is its client. Nothing that a request, or an environment, says of itself proves more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Connection

from corral.coordination.sessions.processes import is_running
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.states import SessionStatus
from corral.store.rows.sessions import SessionRow


def sessions_of(conn: Connection, lineage: Sequence[int]) -> dict[str, int]:
    """The live sessions whose client is one of these processes, each with that process: of the nearest first, and a session
    before its subagents.

    Args:
        lineage: A process, and those above it, the nearest first.
    """
    rows = [(lineage.index(row["client_pid"]), row) for row in session_rows.of_processes(conn, lineage)]
    return {
        row["session_id"]: lineage[place]
        for place, row in sorted(rows, key=lambda pair: (pair[0], pair[1]["parent_session_id"] is not None))
        if is_running(lineage[place], row["client_started"])
    }


def is_elsewhere(conn: Connection, row: SessionRow | None, lineage: Collection[int]) -> bool:
    """Whether another process speaks for a session: it is live, and its client runs and is none of these processes."""
    if row is not None and row["client_pid"] is None and row["parent_session_id"] is not None:
        row = session_rows.get(conn, row["parent_session_id"])
    if row is None or row["client_pid"] is None or row["status"] == SessionStatus.DISCONNECTED:
        return False
    return row["client_pid"] not in lineage and is_running(row["client_pid"], row["client_started"])


def may_speak(conn: Connection, session_id: str, own: Collection[str], lineage: Collection[int]) -> bool:
    """Whether a process may speak for the session that it names.

    Every process that belongs to no other session may speak for a session without a client (``corral session register``):
    without that name the process would count as a person, who may speak for everybody.

    Args:
        own: The sessions of its lineage.
    """
    row = session_rows.get(conn, session_id)
    if row is None or session_id in own:
        return True
    return row["parent_session_id"] in own if own else not is_elsewhere(conn, row, lineage)


def others_among(
    conn: Connection, session_ids: Iterable[str], client_pid: int | None, lineage: Sequence[int]
) -> tuple[SessionRow | None, list[str]]:
    """The session that an event names, or would end, although another process than the sender is its client; and the sender's
    own sessions.

    A sender that belongs to no session yet may be a second client of the same one (``claude --continue`` in another terminal).

    Args:
        session_ids: The sessions that the event names.
        client_pid: The client that it names: another session of that one would end.
    """
    ended = (
        session_rows.of_processes(conn, [client_pid]) if client_pid is not None and client_pid not in lineage else []
    )
    rows = (session_rows.get(conn, name) for name in (*session_ids, *(row["session_id"] for row in ended)))
    other = next((row for row in rows if is_elsewhere(conn, row, lineage)), None)
    return other, list(sessions_of(conn, lineage)) if other is not None else []
