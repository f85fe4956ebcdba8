"""Work that no runner executes: sessions claim it, hold it under a lease, and complete it.

The lease is as good as its holder: it lasts while the session lives, however long a machine slept or a daemon was away, and
when the session ends the task is on offer again (:mod:`corral.coordination.sessions.session_end`). A person's session falls
silent while they work, and whatever they type revives it, so their lease lasts for its time, neither less nor more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.sessions.discovery import Capabilities
from corral.coordination.sessions.registry import PERSON, SILENT
from corral.coordination.sessions.session_end import Offer
from corral.coordination.sessions.store import names, sessions
from corral.core.errors import LeaseLost
from corral.core.events import TASK_SETBACKS, EventKind
from corral.core.instants import after, iso, parse
from corral.core.payload import Payload, picked
from corral.core.redaction import redact
from corral.core.states import AttemptOutcome, SessionStatus, TaskStatus
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows import Columns, required
from corral.store.rows.sessions import SessionRow
from corral.store.rows.tasks import ClaimedTask, ReadyTask, TaskRow
from corral.work.tasks import attempts, scheduling
from corral.work.tasks.attempts import Ending, judge
from corral.work.tasks.dependencies import reconsider
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import leases as lease_rows
from corral.work.tasks.store import tasks, work_pause

LOOK_EVERY_S = 15.0
"""Seconds between two looks at what sessions hold."""
RENEWED_BELOW = 0.9
"""The share of a whole lease below which a live session's is renewed."""
HOLDER_GONE = "holder_gone"
"""The ``error_code`` of a task that was given up: all who claimed it went away before it was done."""
ENDED = "The session that had claimed it ended before it was done."
EXPIRED = "The lease of the person who had claimed it expired before it was done."
FAILED = "failed_by_agent"
"""The ``error_code`` of a task whose holder reported a failure without a code."""


class Claimant:
    """The session that asks for work, and what it is capable of (in lower case: discovery knows no other).

    Args:
        read_capabilities: Called once, and only where a task that is on offer requires any.
    """

    def __init__(self, session_id: str, read_capabilities: Callable[[], Iterable[str]] = tuple) -> None:
        self.session_id = session_id
        self._read_capabilities = read_capabilities

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """All that it can do."""
        return frozenset(capability.casefold() for capability in self._read_capabilities())

    def can_do(self, row: ReadyTask) -> bool:
        """Whether it has every capability that a task requires."""
        required = (row["agent_requirements"] or {}).get("capabilities", ())
        return not required or self.capabilities.issuperset(capability.casefold() for capability in required)


def claimant(conn: Connection, session_id: str, of_team: Capabilities = lambda _name: ()) -> Claimant:
    """The claimant of a registered session; ``of_team`` gives the capabilities that the team declares for a name."""

    def capabilities() -> Iterable[str]:
        row = sessions.get(conn, session_id)
        if row is None:
            return ()
        called = (row["agent_name"], *names.by_session(conn, [session_id]).get(session_id, ()))
        return (*row["capabilities"], *(capability for name in called for capability in of_team(name)))

    return Claimant(session_id, capabilities)


def claim(
    conn: Connection,
    claimant: Claimant,
    now: datetime,
    settings: Settings,
    *,
    task_types: Sequence[str] = (),
    key: str | None = None,
    fold: bool = False,
) -> TaskRow | None:
    """Lease the next task that is on offer to sessions, and that this one is able to do; None if there is none.

    Args:
        fold: Whether the file system ignores case.
        key: Idempotency key: the same claim again, after a lost answer, gets the same task while the session holds it.
    """
    if key is not None and (again := tasks.claimed_with(conn, claimant.session_id, key)) is not None:
        return again

    if work_pause.current(conn) is not None:
        return None

    row = scheduling.claim(
        conn,
        session_id=claimant.session_id,
        lease_s=settings.sessions.lease_s,
        ageing_s=settings.tasks.ageing_s,
        now=now,
        ready=partial(offered_to, who=claimant, task_types=task_types),
        key=key,
        fold=fold,
        started=True,
    )
    if row is not None:
        sessions.works_on(conn, claimant.session_id, redact(row["title"]))
    return row


def offered_to(
    conn: Connection, now: str, *, who: Claimant, task_types: Sequence[str] = (), priority: int | None = None
) -> Iterator[ReadyTask]:
    """The tasks that a session could claim, as :func:`corral.work.tasks.store.tasks.ready` tells them."""
    offered = tasks.ready(conn, now, priority=priority, offered=True, task_types=task_types)
    return (row for row in offered if who.can_do(row))


def complete(
    conn: Connection,
    row: TaskRow,
    holders: Sequence[str],
    now: datetime,
    rules: TaskRules,
    *,
    success: bool,
    result: Payload | None = None,
    error_message: str | None = None,
) -> TaskRow:
    """End a task as its holder says: ``completed``, or ``failed`` for good (``corral task retry`` offers it again).

    The same call again, after a lost answer, changes nothing and gets the same answer.

    Args:
        row: The task, as it was read in this transaction.
        holders: The session that speaks, and those it may speak for.
        result: The task's result; where it failed, its ``error_code`` names why.

    Raises:
        LeaseLost: None of the holders has it; ``details`` say who has.
    """
    status = TaskStatus.COMPLETED if success else TaskStatus.FAILED
    if _is_theirs(row, holders) and (row["status"], row["result"]) == (status, result):
        return row
    if not holds(row, holders):
        owner = picked(row, ("status", "session_id"))
        raise LeaseLost(
            f"Task {row['task_id']} is not yours to complete: it is {row['status']}.",
            cause="Only the session that claimed a task completes it, once; a lease ends with its session.",
            remedy="get_work gives you a task; cancel_task_convention cancels one that is not yours.",
            details={"task_id": row["task_id"], "owner": owner},
        )
    named = (result or {}).get("error_code")
    ending = Ending(
        success,
        None if success else (named[:64] if isinstance(named, str) and named else FAILED),
        None if success else error_message or "Its holder said that it failed.",
        retryable=False,
        result=result,
    )
    moved = attempts.end(conn, row["task_id"], row["fencing_token"], ending, now, rules, before=row)
    sessions.ended_work(conn, required(row["session_id"]), redact(row["title"]))
    return moved


def _is_theirs(row: TaskRow, holders: Sequence[str]) -> bool:
    return row["runner"] is None and row["session_id"] in holders


def holds(row: TaskRow, holders: Sequence[str]) -> bool:
    """Whether one of these sessions has claimed the task, and has it still."""
    return _is_theirs(row, holders) and row["status"] == TaskStatus.RUNNING


def also_held(conn: Connection, session_id: str, besides: TaskRow | None) -> list[ClaimedTask]:
    """The other tasks that a session has claimed and not completed: it forgot them, or the answer to its claim was lost.

    Returns:
        ``{task_id, title, lease_expires_at}``, the oldest first.
    """
    return tasks.also_held(conn, session_id, besides["task_id"] if besides is not None else "")


def due(conn: Connection, now: datetime, settings: Settings) -> list[TaskRow]:
    """The tasks that sessions have claimed and of which :func:`keep` would change something."""
    # a lease is renewed once a tenth of it has passed, so that it is not written with every look
    renewed_below = after(now, RENEWED_BELOW * settings.sessions.lease_s)
    return lease_rows.due(conn, iso(now), renewed_below, person=PERSON, silent=SILENT)


def keep(conn: Connection, now: datetime, settings: Settings) -> list[TaskRow]:
    """Renew the leases of live sessions, and offer the tasks of others again, where :func:`give_back` did not.

    Returns:
        The tasks that were given back.
    """
    returned = []
    for row in due(conn, now, settings):
        holder = sessions.get(conn, required(row["session_id"]))
        if holder is None or (
            holder["status"] == SessionStatus.DISCONNECTED and not _outlasts(holder, holder["end_reason"])
        ):
            returned.append(_give_back(conn, row, now, settings.tasks))
        elif holder["agent_type"] == PERSON:
            returned.append(_give_back(conn, row, now, settings.tasks, EXPIRED))
        else:
            lasts = {"lease_expires_at": after(now, settings.sessions.lease_s)}
            attempt_rows.change_open(conn, row["task_id"], row["fencing_token"], lasts)
    return returned


class LeaseWatch:
    """Looks after what sessions have claimed, for the supervisor's step: only where something may be due.

    Whatever ends a session offers its tasks again in the same transaction (:func:`give_back`), so that between two looks
    only a person's lease can end, and none that was claimed after a look ends within ``sessions.lease_s`` of it.
    """

    def __init__(self, db: Store, settings: Callable[[], Settings]) -> None:
        self._db = db
        self._settings = settings
        self._looked_at: datetime | None = None
        self.look_at: datetime | None = None
        """When to look again; None: nothing was claimed."""

    def look(self, now: datetime) -> bool:
        """Renew and give back what is due; returns whether a task is on offer again. A clock that was set back makes it look."""
        if self._looked_at is not None and self.look_at is not None and self._looked_at <= now < self.look_at:
            return False
        settings = self._settings()
        with self._db.reading() as conn:
            is_any_due = bool(due(conn, now, settings))
        returned = self._db.write(lambda conn: keep(conn, now, settings)) if is_any_due else []
        latest = now + timedelta(seconds=min(LOOK_EVERY_S, settings.sessions.lease_s))
        with self._db.reading() as conn:
            self._looked_at, self.look_at = now, next_end(conn, now, latest)
        return bool(returned)


def next_end(conn: Connection, now: datetime, latest: datetime) -> datetime | None:
    """When to look again at what sessions have claimed: where a lease ends, or at the latest; None: they have claimed nothing."""
    ends_at = lease_rows.first_end(conn)
    return min(latest, max(now, parse(ends_at))) if ends_at else None


def give_back(conn: Connection, session_id: str, reason: str, now: datetime, rules: TaskRules) -> list[TaskRow]:
    """Offer again what a session that ends for this reason holds, and its subagents; returns those tasks."""
    mine = tasks.held_by(conn, sessions.family(conn, session_id))
    if not mine or _outlasts(sessions.get(conn, session_id), reason):
        return []
    return [_give_back(conn, row, now, rules) for row in mine]


def offering(rules: TaskRules) -> Offer:
    """Make the function that the end of a session calls, to offer its tasks again."""
    return partial(give_back, rules=rules)


def _outlasts(holder: SessionRow | None, reason: str | None) -> bool:
    """Whether a lease outlasts its session: a person's session is silent while they work."""
    return holder is not None and holder["agent_type"] == PERSON and reason == SILENT


def _give_back(conn: Connection, row: TaskRow, now: datetime, rules: TaskRules, cause: str = ENDED) -> TaskRow:
    verdict = judge(row["attempts"], row["max_retries"], initial_s=0, max_s=0)
    is_dead = verdict.status != TaskStatus.PENDING
    why: Columns = {
        "error_code": HOLDER_GONE,
        "error_message": cause,
    }
    values: Columns = {"status": verdict.status}
    values |= {**why, "completed_at": iso(now)} if is_dead else {"current_attempt": None}
    moved = tasks.transition(
        conn,
        row["task_id"],
        (TaskStatus.RUNNING,),
        values,
        token=row["fencing_token"],
        attempt=attempts.ended(AttemptOutcome.RETURNED, now, **why),
    )
    if moved is None:
        return row
    kind = TASK_SETBACKS[verdict.status] if is_dead else EventKind.TASK_REQUEUED
    event = kind({"error_code": why["error_code"], "error_message": why["error_message"]})
    events.record(conn, now, event, task_id=row["task_id"], session_id=row["session_id"])
    if is_dead:
        reconsider(conn, [row["task_id"]], now, unblock_on=rules.unblock_on)
    return moved
