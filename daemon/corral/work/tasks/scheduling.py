"""Which task is next, and its lease.

The order is priority (10 first), then age; ageing lifts a task by one step per ``ageing_s`` it has waited. A task whose
claims are too much those of a running one waits until that one has ended; one that overlaps with it only in part starts when
nothing else could (:mod:`corral.coordination.features.feasibility`).

So that a task which claims much is not passed over for ever, what waits for a running task reserves its claims while a task is
picked (:class:`Pick`): a later one that would hold it up is not started. Nothing of that is stored. Only what the one who asks
could start reserves: a task for sessions does not keep a worker from its work, since nobody knows whether a session will ask.

A follower goes beside its leader whatever both claim, since the leader waits for it; and so do the agents that do one task.

Within one daemon's life its presence is the lease: no worker of its own is taken for dead by the clock, and a running row that
it has no worker for is requeued at once. Expiry is for what other sessions hold, who may
fall silent: see :mod:`corral.coordination.sessions.registry`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.coordination.features.feasibility import ClaimIndex, Feasibility, Judgement
from corral.coordination.locks.keys import LockKey, parse_key
from corral.coordination.sessions.registry import name_to_be
from corral.core.events import EventKind
from corral.core.instants import after, iso, parse
from corral.core.states import TaskStatus
from corral.store import events
from corral.store.rows import required
from corral.store.rows.tasks import ReadyTask, TaskRow
from corral.work.tasks.store import family, tasks

if TYPE_CHECKING:
    from corral.core.event_payloads import TaskClaimed

Ready = Callable[..., Iterator[ReadyTask]]
"""The tasks on offer, as :func:`corral.work.tasks.store.tasks.ready` tells it: ``(conn, now, priority=…)``."""

_FIRST_PAGE, _PAGE = 4, 64
"""How many candidates have their claims read at once: as a rule one of the first is taken."""

_FURTHEST = 64
"""How many candidates are looked at for one that overlaps with nothing, where one that overlaps in part could start."""

_MOST_RESERVED = 16
"""How many candidates reserve their claims in one pick. The first of them starts in any case, and then the next is the first."""


@dataclass(frozen=True)
class Blocker:
    """The task that keeps another from starting.

    Attributes:
        claim: The claim of it that the other overlaps with, as it is shown.
        waits_for: The running task that it waits for itself; None: it runs.
    """

    task_id: str
    claim: str
    waits_for: str | None = None


@dataclass(frozen=True)
class _Reservation:
    """The claims of a candidate that what runs keeps from starting.

    Attributes:
        size: How many claims it has.
        contended: Those that it shares with running tasks beside which it could start.
        waits_for: The running task that it waits for; None: it could start if nothing else could.
    """

    size: int
    contended: frozenset[LockKey]
    waits_for: str | None


class Pick:
    """The running claims and the reserved ones, while one task is picked.

    A candidate that cannot start beside what runs reserves its claims. A later one that would keep it from starting once that
    has ended is passed over; one that overlaps with it less than that starts only when nothing else could, and so does one that
    overlaps with a candidate that could start itself. So no stream of later tasks keeps a candidate waiting: it starts when what
    runs now has ended, or beside what is left of it. Candidates that do not overlap start as ever.

    Args:
        running: The claims of the running tasks, by task.
        fold: Whether the file system ignores case.
    """

    def __init__(self, running: Mapping[str, Sequence[str]], *, fold: bool) -> None:
        self._fold = fold
        self._key_of = cache(partial(parse_key, fold=fold))
        self._running = ClaimIndex({task_id: list(map(self._key_of, claims)) for task_id, claims in running.items()})
        self._reserved = ClaimIndex({})
        self._reservations: dict[str, _Reservation] = {}

    def judge(self, task_id: str, claims: Sequence[str], kin: Collection[str] = ()) -> Feasibility:
        """Judge the next candidate in the queue's order; ``SEQUENTIAL`` is passed over, ``PARTIAL`` comes after all others.

        Args:
            kin: The tasks that it goes beside whatever they claim.
        """
        beside = self._meet(self._running, claims, kin)
        if beside.feasibility is Feasibility.SEQUENTIAL:
            self._reserve(task_id, claims, beside)
            return Feasibility.SEQUENTIAL
        ahead = self._meet(self._reserved, claims, kin)
        if self._held_up(ahead, kin) is not None:
            return Feasibility.SEQUENTIAL
        if beside.feasibility is Feasibility.PARTIAL:
            self._reserve(task_id, claims, beside)
        return Feasibility.PARTIAL if beside.meetings or ahead.meetings else Feasibility.FULL

    def blocker(self, claims: Sequence[str], kin: Collection[str] = ()) -> Blocker | None:
        """Why a task with these claims is passed over, after those that :meth:`judge` has seen; None if it is not."""
        beside = self._meet(self._running, claims, kin)
        if beside.feasibility is Feasibility.SEQUENTIAL:
            gravest = _gravest(beside)
            return Blocker(gravest, _their_claim(beside, gravest))
        ahead = self._meet(self._reserved, claims, kin)
        first = self._held_up(ahead, kin)
        if first is None:
            return None
        return Blocker(first, _their_claim(ahead, first), self._reservations[first].waits_for)

    def _meet(self, index: ClaimIndex, claims: Sequence[str], kin: Collection[str]) -> Judgement:
        near = [self._key_of(claim) for claim in claims if index.is_near(claim.lower() if self._fold else claim)]
        return index.judge(near, of=len(claims), without=kin)

    def _held_up(self, ahead: Judgement, kin: Collection[str]) -> str | None:
        """The first task with reserved claims that could not start if a task with this overlap ran.

        One that waits for kin is left out: otherwise its kin would wait for it in turn.
        """
        for task_id, meeting in ahead.meetings.items():
            reservation = self._reservations[task_id]
            contended = reservation.contended.union(theirs for _, theirs in meeting.pairs)
            is_too_much = meeting.feasibility is Feasibility.SEQUENTIAL or 2 * len(contended) > reservation.size
            if reservation.waits_for is not None and reservation.waits_for not in kin and is_too_much:
                return task_id
        return None

    def _reserve(self, task_id: str, claims: Sequence[str], beside: Judgement) -> None:
        if len(self._reservations) >= _MOST_RESERVED:
            return
        keys = [self._key_of(claim) for claim in claims]
        self._reserved.add(task_id, keys)
        stays = (meeting for meeting in beside.meetings.values() if meeting.feasibility is Feasibility.PARTIAL)
        contended = frozenset(mine for meeting in stays for mine, _ in meeting.pairs)
        waits_for = _gravest(beside) if beside.feasibility is Feasibility.SEQUENTIAL else None
        self._reservations[task_id] = _Reservation(len(set(keys)), contended, waits_for)


def _gravest(judgement: Judgement) -> str:
    meetings = judgement.meetings
    return next(
        (task_id for task_id in meetings if meetings[task_id].feasibility is Feasibility.SEQUENTIAL),
        next(iter(meetings)),
    )


def _their_claim(judgement: Judgement, task_id: str) -> str:
    return judgement.meetings[task_id].pairs[0][1].file_path


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
        key: Stored with the claim, to look it up by (:func:`corral.work.tasks.store.tasks.claimed_with`).

    Returns:
        The leased row, with its new ``fencing_token``; None if nothing can start now.
    """
    for candidate in _beside(conn, in_order(conn, now, ageing_s, ready or startable), fold=fold):
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
            if not started:
                data["agent_name"] = name_to_be(conn, session_id)
            data["expires_at"] = required(row["lease_expires_at"])
            events.record(conn, now, EventKind.TASK_CLAIMED(data), task_id=row["task_id"], session_id=session_id)
            return row
    return None


def startable(
    conn: Connection, now: str, *, priority: int | None = None, without: Iterable[str] = ()
) -> Iterator[ReadyTask]:
    """Tasks that a runner could start now: as :func:`corral.work.tasks.store.tasks.ready`, but only one suspected task at a time.

    A task whose worker died with a daemon twice in a row is suspected of having killed it. Where only one of them runs, the next
    death shows which; those that did nothing then are cleared by running to their end. Followers run beside their leader all the
    same: it waits for them.
    """
    suspected = tasks.suspect_in_flight(conn) is not None
    return tasks.ready(conn, now, priority=priority, unsuspected=suspected, without=without)


def in_order(conn: Connection, now: datetime, ageing_s: float, ready: Ready = tasks.ready) -> Iterator[ReadyTask]:
    """Tasks that could start now, next one first; reads no further than the caller goes."""
    if ageing_s <= 0:
        return ready(conn, iso(now))
    # Within one level the oldest has been lifted furthest, so each level is in order already: merging them is enough.
    levels = [ready(conn, iso(now), priority=level) for level in range(tasks.HIGHEST, -1, -1)]
    return heapq.merge(*levels, key=lambda row: (-lifted(row, now, ageing_s), row["seq"]))


def lifted(row: ReadyTask, now: datetime, ageing_s: float) -> int:
    """A task's priority after ageing, 10 at most."""
    waited_s = max(0.0, (now - parse(row["created_at"])).total_seconds())
    return min(tasks.HIGHEST, int(row["priority"]) + int(waited_s // ageing_s))


def blocker(
    conn: Connection, task_id: str, now: datetime, *, ageing_s: float, ready: Ready, fold: bool = False
) -> Blocker | None:
    """The task that keeps a pending one from starting; None where it is only its turn that it waits for.

    Args:
        ready: The tasks that are on offer together with it; no more than the first few hundred are looked at.
        fold: Whether the file system ignores case.
    """
    claimed = tasks.claims_in(conn, TaskStatus.RUNNING)
    claims = tasks.claims_of(conn, task_id)[task_id] if claimed else []
    if not claims:
        return None
    pick, kin = Pick(claimed, fold=fold), family.kin(conn, task_id)
    if (runs := pick.blocker(claims, kin)) is not None:
        return runs
    for candidate, theirs in islice(_with_claims(conn, in_order(conn, now, ageing_s, ready)), _FURTHEST):
        if candidate["task_id"] == task_id:
            break
        pick.judge(candidate["task_id"], theirs, _kin(conn, candidate, theirs))
    return pick.blocker(claims, kin)


def _beside(conn: Connection, candidates: Iterator[ReadyTask], *, fold: bool) -> Iterator[ReadyTask]:
    """Those that can go beside what runs, in their order; what overlaps in part comes after all the others.

    What the running tasks claim is read for the first candidate that claims anything itself.
    """
    in_part: list[ReadyTask] = []
    pick: Pick | None = None
    for number, (candidate, claims) in enumerate(_with_claims(conn, candidates)):
        if in_part and number >= _FURTHEST:
            break
        if not claims:
            yield candidate
            continue
        pick = pick or Pick(tasks.claims_in(conn, TaskStatus.RUNNING), fold=fold)
        verdict = pick.judge(candidate["task_id"], claims, _kin(conn, candidate, claims))
        if verdict is Feasibility.FULL:
            yield candidate
        elif verdict is Feasibility.PARTIAL:
            in_part.append(candidate)
    yield from in_part


def _kin(conn: Connection, candidate: ReadyTask, claims: Sequence[str]) -> Collection[str]:
    is_led = claims and candidate["parent_task_id"] is not None
    return family.kin(conn, candidate["task_id"]) if is_led else ()


def _with_claims(conn: Connection, candidates: Iterator[ReadyTask]) -> Iterator[tuple[ReadyTask, list[str]]]:
    size = _FIRST_PAGE
    while page := list(islice(candidates, size)):
        claims = tasks.claims_of(conn, *(candidate["task_id"] for candidate in page if candidate["has_claims"]))
        for candidate in page:
            yield candidate, claims.get(candidate["task_id"], [])
        size = _PAGE
