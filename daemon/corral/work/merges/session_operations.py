"""A session with what it made: its commits and merge requests."""

from __future__ import annotations

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.coordination.sessions import changesets
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.api import SessionId
from corral.coordination.sessions.operations import whole
from corral.core.payload import Payload
from corral.core.redaction import redact
from corral.core.routing import EVERYONE, MACHINE, Routes
from corral.git import history
from corral.store.rows.merges import MergeRow
from corral.work.merges.api import SessionDetail
from corral.work.merges.wire import summary

router = Routes("sessions", "/sessions", scope=MACHINE, callers=EVERYONE)

MOST_MERGES, MOST_COMMITS = 50, 500
"""How many of a session's latest an answer has."""


@router.get("/{session_id}", answer=SessionDetail)
async def detail(services: Services, session_id: SessionId) -> Payload:
    """A session, by its id or a name: its registrations, and the commits and merge requests it made."""

    def look(conn: Connection) -> tuple[Payload, changesets.Changesets]:
        row = session_registry.find(conn, session_id)
        return whole(conn, row, services.teams().capabilities), changesets.of(conn, row["session_id"])

    shown, changes = await services.store.read(look)
    merges = changes["merges"][-MOST_MERGES:]
    submitted = await services.work(lambda: [_submitted(services, merge) for merge in merges])
    known = {commit["sha"]: commit for commits in submitted for commit in commits}
    commits = {**{commit["sha"]: commit for commit in changes["commits"]}, **known}
    latest = {"commits": [*commits.values()][-MOST_COMMITS:], "merges": [summary(merge) for merge in merges]}
    left_out = len(commits) - len(latest["commits"]) + len(changes["merges"]) - len(merges)
    return {**shown, "changesets": {**latest, **({"left_out": left_out} if left_out else {})}}


def _submitted(services: Services, merge: MergeRow) -> list[Payload]:
    """The commits of a merge request."""
    if merge["base_sha"] is None:
        return []
    commits = history.between(services.git, merge["base_sha"], merge["head_sha"])
    return [{"sha": commit.sha, "subject": redact(commit.subject), "branch": merge["branch"]} for commit in commits]
