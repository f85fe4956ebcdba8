"""Which task is next, and its lease.

The order is priority (10 first), then age; ageing lifts a task by one step per ``ageing_s`` it has waited. A task whose
claims overlap with those of a running one is passed over until that one has ended.

Within one daemon's life its presence is the lease: no worker of its own is taken for dead by the clock, and a running row that
it has no worker for is requeued at once. Expiry is for what other sessions hold, who may
fall silent: see :mod:`corral.coordination.sessions`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from corral.coordination.keys import LockKey, keys_overlap, parse_key
from corral.models.instants import after, iso, parse
from corral.models.states import TaskStatus
from corral.store import events, tasks

Row = dict[str, Any]

HIGHEST = 10

_PAGE = 64
"""How many candidates have their claims read at once."""


def claim(conn: Connection, *, session_id: str, lease_s: float, ageing_s: float, now: datetime) -> Row | None:
    """Pick the next task and lease it, in the caller's write transaction.

    The attempt is counted here, so that a task that kills whatever runs it runs out of attempts.

    Args:
        session_id: The worker that will own it.
        lease_s: How long the lease lasts unless renewed, seconds.
        ageing_s: Seconds of waiting that are worth one step of priority; 0 is none.

    Returns:
        The leased row, with its new ``fencing_token``; None if nothing can start now.
    """
    taken = [parse_key(text) for claims in tasks.claims_in(conn, TaskStatus.RUNNING).values() for text in claims]
    candidates = in_order(conn, now, ageing_s)
    for candidate in _unblocked(conn, candidates, taken) if taken else candidates:
        row = tasks.lease(
            conn,
            candidate["task_id"],
            session_id=session_id,
            now=iso(now),
            lease_expires_at=after(now, lease_s),
        )
        if row is not None:
            data = {"attempt": row["attempts"], "token": row["fencing_token"]}
            events.record(conn, now, "task.claimed", task_id=row["task_id"], session_id=session_id, data=data)
            return row
    return None


def in_order(conn: Connection, now: datetime, ageing_s: float) -> Iterator[Row]:
    """Tasks that could start now, next one first; reads no further than the caller goes."""
    if ageing_s <= 0:
        return tasks.ready(conn, iso(now))
    # Within one level the oldest has been lifted furthest, so each level is in order already: merging them is enough.
    levels = [tasks.ready(conn, iso(now), priority=level) for level in range(HIGHEST, -1, -1)]
    return heapq.merge(*levels, key=lambda row: (-lifted(row, now, ageing_s), row["seq"]))


def lifted(row: Row, now: datetime, ageing_s: float) -> int:
    """A task's priority after ageing, 10 at most."""
    waited_s = max(0.0, (now - parse(row["created_at"])).total_seconds())
    return min(HIGHEST, int(row["priority"]) + int(waited_s // ageing_s))


def _unblocked(conn: Connection, candidates: Iterator[Row], taken: list[LockKey]) -> Iterator[Row]:
    """Those whose claims overlap with none of the keys that are taken."""
    known: dict[str, bool] = {}

    def is_blocked(text: str) -> bool:
        if text not in known:
            key = parse_key(text)
            known[text] = any(keys_overlap(key, other) for other in taken)
        return known[text]

    while page := list(islice(candidates, _PAGE)):
        claims = tasks.claims_of(conn, *(candidate["task_id"] for candidate in page))
        for candidate in page:
            if not any(map(is_blocked, claims[candidate["task_id"]])):
                yield candidate
