"""Which task is next, and its lease.

The order is priority (10 first), then age; ageing lifts a task by one step per ``ageing_s`` it has waited. A task whose
claims are too much those of a running one waits until that one has ended; one that overlaps with it only in part starts when
nothing else could (:mod:`corral.coordination.features.feasibility`).

Within one daemon's life its presence is the lease: no worker of its own is taken for dead by the clock, and a running row that
it has no worker for is requeued at once. Expiry is for what other sessions hold, who may
fall silent: see :mod:`corral.coordination.sessions.registry`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.coordination.features.feasibility import ClaimIndex, Feasibility
from corral.coordination.locks.keys import parse_key
from corral.coordination.sessions.names import agent_name
from corral.models.events import EventKind
from corral.models.instants import after, iso, parse
from corral.models.states import TaskStatus
from corral.store import events
from corral.store.rows import required
from corral.store.rows.tasks import ReadyTask, TaskRow
from corral.store.sessions import names
from corral.store.tasks import tasks

if TYPE_CHECKING:
    from corral.models.event_payloads import TaskClaimed

Ready = Callable[..., Iterator[ReadyTask]]
"""The tasks on offer, as :func:`corral.store.tasks.tasks.ready` tells it: ``(conn, now, priority=…)``."""

HIGHEST = 10

_PAGE = 64
"""How many candidates have their claims read at once."""


def claim(
    conn: Connection,
    *,
    session_id: str,
    lease_s: float,
    ageing_s: float,
    now: datetime,
    ready: Ready | None = None,
    key: str | None = None,
    fold: bool = False,
    started: bool = False,
) -> TaskRow | None:
    """Pick the next task and lease it, in the caller's write transaction.

    The attempt is counted here, so that a task that kills whatever runs it runs out of attempts.

    Args:
        session_id: The worker that will own it.
        lease_s: How long the lease lasts unless renewed, seconds.
        ageing_s: Seconds of waiting that are worth one step of priority; 0 is none.
        ready: The tasks on offer; by default what a runner could start (:func:`startable`).
        fold: Whether the file system ignores case, so that claims are compared like that.
        started: Whether the work begins with the claim: no worker's process has to be started first.
        key: Kept with the claim, by which it can be found again (:func:`corral.store.tasks.tasks.claimed_with`).

    Returns:
        The leased row, with its new ``fencing_token``; None if nothing can start now.
    """
    claimed = tasks.claims_in(conn, TaskStatus.RUNNING)
    running = ClaimIndex(
        {task_id: [parse_key(text, fold=fold) for text in claims] for task_id, claims in claimed.items()}
    )
    candidates = in_order(conn, now, ageing_s, ready or startable)
    for candidate in _beside(conn, candidates, running, fold=fold) if claimed else candidates:
        row = tasks.lease(
            conn,
            candidate["task_id"],
            session_id=session_id,
            now=iso(now),
            lease_expires_at=after(now, lease_s),
            started_at=iso(now) if started else None,
            key=key,
        )
        if row is not None:
            data: TaskClaimed = {"attempt": row["attempts"], "token": row["fencing_token"]}
            if key:
                data["key"] = key
            if not started:  # the name that its worker gets when it registers: both choose it by the session's id
                data["agent_name"] = agent_name(lambda name: names.resolve(conn, name) is not None, session_id)
            data["expires_at"] = required(row["lease_expires_at"])
            events.record(conn, now, EventKind.TASK_CLAIMED(data), task_id=row["task_id"], session_id=session_id)
            return row
    return None


def startable(
    conn: Connection, now: str, *, priority: int | None = None, without: Iterable[str] = ()
) -> Iterator[ReadyTask]:
    """Tasks that a runner could start now: as :func:`corral.store.tasks.tasks.ready`, but only one suspected task at a time.

    Tasks that were running when a daemon died are suspected of having killed it. Where only one of them runs, the next death
    shows which; those that did nothing then are cleared by running to their end.
    """
    suspected = tasks.suspect_in_flight(conn) is not None
    return tasks.ready(conn, now, priority=priority, unsuspected=suspected, without=without)


def in_order(conn: Connection, now: datetime, ageing_s: float, ready: Ready = tasks.ready) -> Iterator[ReadyTask]:
    """Tasks that could start now, next one first; reads no further than the caller goes."""
    if ageing_s <= 0:
        return ready(conn, iso(now))
    # Within one level the oldest has been lifted furthest, so each level is in order already: merging them is enough.
    levels = [ready(conn, iso(now), priority=level) for level in range(HIGHEST, -1, -1)]
    return heapq.merge(*levels, key=lambda row: (-lifted(row, now, ageing_s), row["seq"]))


def lifted(row: ReadyTask, now: datetime, ageing_s: float) -> int:
    """A task's priority after ageing, 10 at most."""
    waited_s = max(0.0, (now - parse(row["created_at"])).total_seconds())
    return min(HIGHEST, int(row["priority"]) + int(waited_s // ageing_s))


def _beside(
    conn: Connection, candidates: Iterator[ReadyTask], running: ClaimIndex, *, fold: bool
) -> Iterator[ReadyTask]:
    """Those that can go beside what runs, in their order; what overlaps with it in part comes after all the others."""
    key_of = cache(partial(parse_key, fold=fold))
    in_part: list[ReadyTask] = []
    while page := list(islice(candidates, _PAGE)):
        claims = tasks.claims_of(conn, *(candidate["task_id"] for candidate in page))
        for candidate in page:
            texts = claims[candidate["task_id"]]
            near = [key_of(text) for text in texts if running.is_near(text.lower() if fold else text)]
            verdict = running.judge(near, of=len(texts)).feasibility
            if verdict is Feasibility.FULL:
                yield candidate
            elif verdict is Feasibility.PARTIAL:
                in_part.append(candidate)
    yield from in_part
