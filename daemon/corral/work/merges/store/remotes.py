"""SQL for what is known of targets on their remotes, and for branches that are to be published."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, literal_column, select, update

from corral.core.instants import iso
from corral.core.states import OPEN_MERGES, MergeState
from corral.store.engine.prepared import Prepared
from corral.store.rows.merges import LandedBranch, RemoteRow
from corral.store.schema import branch_pushes, landing_remotes, merge_requests

_r, _b, _m = landing_remotes.c, branch_pushes.c, merge_requests.c
_ALL = Prepared[RemoteRow](select(landing_remotes))
_LANDED = Prepared[LandedBranch](
    select(branch_pushes, _m.branch, _m.head_sha, _m.title)
    .join(merge_requests, _m.merge_id == _b.merge_id)
    .where(_m.state.concat("") == MergeState.LANDED.value)  # found from the pushes, of which there are few
    .order_by(_m.seq + literal_column("0"))  # nor does the order make SQLite begin with the requests
)
_CALM: dict[str, Any] = {"reason": None, "since_at": None, "look_at": None}


def every(conn: Connection) -> dict[str, RemoteRow]:
    """All of them, by target (short name)."""
    return {row["target"]: row for row in _ALL.each(conn, {})}


def seen(conn: Connection, target: str, remote: str, now: datetime) -> None:
    """The remote's target was fetched."""
    _put(conn, target, remote, seen_at=iso(now), **_CALM)


def failed(conn: Connection, target: str, remote: str, reason: str, *, tries: int, look_at: str, now: datetime) -> None:
    """The remote did not do what it was asked for: it is asked again at ``look_at``."""
    before = every(conn).get(target)
    since = before["since_at"] if before is not None and before["remote"] == remote else None
    _put(conn, target, remote, tries=tries, reason=reason, look_at=look_at, since_at=since or iso(now))


def built_upon(conn: Connection, target: str, sha: str, ahead: int) -> None:
    """Store that candidates are built upon this commit of the remote's target; ``ahead`` commits exist only here."""
    conn.execute(update(landing_remotes).where(_r.target == target).values(known_sha=sha, ahead=ahead))


def pushed(conn: Connection, target: str, remote: str, sha: str, now: datetime) -> None:
    """The remote has got what was pushed; what came there since is not known yet."""
    _put(conn, target, remote, seen_at=iso(now), known_sha=sha, ahead=0, tries=0, **_CALM)


def behind(conn: Connection, target: str, sha: str | None, reason: str | None) -> None:
    """Store why the target here cannot follow to what landed on the remote; None: it has followed."""
    changed = update(landing_remotes).where(_r.target == target, _r.behind_reason.is_distinct_from(reason))
    conn.execute(changed.values(behind_sha=sha, behind_reason=reason))


def look_at_once(conn: Connection, now: datetime, target: str | None = None) -> None:
    """Ask the remotes of one target, or of all, again with the next step."""
    of_target = [_r.target == target] if target is not None else []
    conn.execute(update(landing_remotes).where(_r.look_at.is_not(None), *of_target).values(look_at=iso(now)))
    conn.execute(update(branch_pushes).values(look_at=iso(now)))


def to_publish(conn: Connection, merge_ids: Iterable[str], remote: str, now: datetime) -> None:
    """The branches of these requests are to be published when they have landed."""
    for merge_id in merge_ids:
        conn.execute(delete(branch_pushes).where(_b.merge_id == merge_id))
        conn.execute(insert(branch_pushes).values(merge_id=merge_id, remote=remote, tries=0, look_at=iso(now)))


def unpublished(conn: Connection) -> list[LandedBranch]:
    """The branches of landed requests that are still to be published, in the order of the requests."""
    return _LANDED.all(conn, {})


def not_published(conn: Connection, merge_id: str, reason: str, *, tries: int, look_at: str) -> None:
    """The remote did not take a branch: it is asked again at ``look_at``."""
    values = {"reason": reason, "tries": tries, "look_at": look_at}
    conn.execute(update(branch_pushes).where(_b.merge_id == merge_id).values(**values))


def published(conn: Connection, merge_id: str) -> None:
    """Nothing is left to publish of a request, nor of any that has ended otherwise than by landing."""
    gone = select(_m.merge_id).where(_m.state.not_in((*OPEN_MERGES, MergeState.LANDED)))
    conn.execute(delete(branch_pushes).where((_b.merge_id == merge_id) | _b.merge_id.in_(gone)))


def _put(conn: Connection, target: str, remote: str, **values: Any) -> None:
    same = (_r.target == target, _r.remote == remote)
    if conn.execute(update(landing_remotes).where(*same).values(**values)).rowcount == 0:
        conn.execute(delete(landing_remotes).where(_r.target == target))
        row = {"target": target, "remote": remote, "ahead": 0, "tries": 0, **values}
        conn.execute(insert(landing_remotes).values(**row))
