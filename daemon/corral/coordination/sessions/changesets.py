"""The changesets of a session: the commits that it was seen to make, and its merge requests."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from corral.coordination.sessions.aftermath import COMMITTED
from corral.models.events import EventKind
from corral.store.sessions import sessions, traces

Row = dict[str, Any]


def of(conn: Connection, session_id: str) -> dict[str, list[Row]]:
    """``{commits: [{sha, subject, branch}], merges: [stored rows]}`` of a session and its subagents, oldest first.

    The commits are those of its shell commands; what it submitted has more (the merge requests name base and head).
    """
    seen = traces.events_of(conn, sessions.family(conn, session_id))
    made = [row["data"] for row in seen if row["kind"] == COMMITTED]
    return {
        "commits": [{**commit, "branch": data["branch"]} for data in made for commit in data["commits"]],
        "merges": traces.merges_of(conn, {row["merge_id"] for row in seen if row["kind"] == EventKind.MERGE_QUEUED}),
    }
