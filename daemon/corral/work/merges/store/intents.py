"""SQL for landing intents: at most one per target; stored before the target moves, removed with the outcome."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from corral.core.instants import iso
from corral.store.engine.prepared import Prepared
from corral.store.rows.merges import IntentRow
from corral.store.schema import landing_intents

_ALL = Prepared[IntentRow](select(landing_intents))


def intend(
    conn: Connection,
    *,
    target: str,
    old_sha: str,
    new_sha: str,
    merge_ids: list[str],
    now: datetime,
    remote: str | None = None,
    remote_sha: str | None = None,
    pushed_at: str | None = None,
) -> None:
    """Record that the target is about to move from ``old_sha`` to ``new_sha``, which lands these requests.

    Args:
        remote: Where it moves first, from ``remote_sha``; None: nowhere.
        pushed_at: When it had moved there.
    """
    values = {
        "target": target, "old_sha": old_sha, "new_sha": new_sha, "merge_ids": merge_ids, "created_at": iso(now),
        "remote": remote, "remote_sha": remote_sha, "pushed_at": pushed_at,
    }  # fmt: skip
    conn.execute(insert(landing_intents).values(**values))


def pushed(conn: Connection, target: str, now: datetime) -> None:
    """The remote has the commit: what is left is to move the target here."""
    conn.execute(update(landing_intents).where(landing_intents.c.target == target).values(pushed_at=iso(now)))


def listing(conn: Connection) -> list[IntentRow]:
    """Every landing that was begun and not yet concluded."""
    return _ALL.all(conn, {})


def intent_failed(conn: Connection, target: str, now: datetime) -> None:
    """Nothing works at the target's intent any more: it could not be found out whether the target moved, or it could not move."""
    conn.execute(update(landing_intents).where(landing_intents.c.target == target).values(failed_at=iso(now)))


def take_up_intent(conn: Connection, target: str) -> bool:
    """Begin to carry out the target's intent, again; False if there is none any more."""
    query = update(landing_intents).where(landing_intents.c.target == target).values(failed_at=None)
    return conn.execute(query).rowcount > 0


def drop_failed_intent(conn: Connection, target: str, failed_at: str) -> bool:
    """Remove an intent that was seen to have failed at this instant; False if something has begun to carry it out since."""
    has_failed_then = (landing_intents.c.target == target, landing_intents.c.failed_at == failed_at)
    return conn.execute(delete(landing_intents).where(*has_failed_then)).rowcount > 0


def conclude(conn: Connection, target: str) -> None:
    """Remove the target's intent; in the transaction that stores the outcome."""
    conn.execute(delete(landing_intents).where(landing_intents.c.target == target))


def intent_of(conn: Connection, merge_id: str) -> IntentRow | None:
    """The open intent that names this request."""
    return next((intent for intent in listing(conn) if merge_id in intent["merge_ids"]), None)


def is_landing(conn: Connection, merge_id: str) -> bool:
    """Whether an open intent names this request."""
    return intent_of(conn, merge_id) is not None
