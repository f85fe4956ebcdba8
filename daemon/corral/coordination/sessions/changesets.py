"""The changesets of a session: the commits that it was seen to make, and its merge requests."""

from __future__ import annotations

from typing import TypedDict

from sqlalchemy import Connection

from corral.coordination.sessions.store import sessions, traces
from corral.core.events import EventKind, payload
from corral.core.payload import Payload
from corral.store.rows import required
from corral.store.rows.merges import MergeRow


class Changesets(TypedDict):
    """Commits, each ``{sha, subject, branch}``, and merge requests; both oldest first."""

    commits: list[Payload]
    merges: list[MergeRow]


def of(conn: Connection, session_id: str) -> Changesets:
    """The changesets of a session and its subagents.

    The commits are those of its shell commands; what it submitted has more (the merge requests name base and head).
    """
    rows = traces.events_of(conn, sessions.family(conn, session_id))
    committed = [data for row in rows if (data := payload(row, EventKind.SESSION_COMMITTED)) is not None]
    queued = (row["merge_id"] for row in rows if row["kind"] == EventKind.MERGE_QUEUED)
    return {
        "commits": [{**commit, "branch": data["branch"]} for data in committed for commit in data["commits"]],
        "merges": traces.merges_of(conn, set(map(required, queued))),
    }
