"""Which tasks start now, within the limits and unless claiming is paused; the one place that names what holds the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.sections.work import Tasks as TaskRules
from corral.core.events import EventKind
from corral.core.identifiers import new_id
from corral.core.instants import after, iso, parse
from corral.core.runners import traits
from corral.core.states import RunnerName
from corral.runners.process import available_mb
from corral.runners.protocol import Finished
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows.tasks import ReadyTask, TaskRow
from corral.work.loops import store as loops
from corral.work.loops.history import is_judged
from corral.work.tasks import scheduling
from corral.work.tasks.store import family, tasks, work_pause
from corral.work.trust.trust import TrustGate
from corral.work.workers import limits
from corral.work.workers.claim_pause import ClaimPause
from corral.work.workers.limits import FreeMemory, Hold, Key, Meter, NoRoom, Parked, Throttle, Use

RUNNERS = frozenset(runner.value for runner in RunnerName)

AGAIN_S = 5.0
"""Between two looks at a limit, or at the agents' files, that hold tasks back."""

STAGGER_S = 0.05
"""From the claim of a task for a model to the next claim of any, so that not all workers ask the model at the same moment."""


class Claiming:
    """For the supervisor's step only; other threads may read its attributes.

    Attributes:
        pause: Counts the starts that the machine prevented.
        meter: Measures the workers.
        use: Their use at the last step.
        throttles: The limits that were used to 80 % or more then.
    """

    def __init__(self, db: Store, settings: Callable[[], Settings], *, fold: bool) -> None:
        self._db = db
        self._settings = settings
        self._fold = fold
        self.pause = ClaimPause()
        self.meter = Meter(db)
        self.use = Use()
        self.throttles: list[Throttle | Parked] = []
        self._parked: Parked | None = None
        self._without_room: tuple[NoRoom, ...] = ()
        self._reserved_mb = 0.0
        self._asked_at: datetime | None = None
        self._lacks_anybody = False

    @property
    def holds(self) -> list[Hold]:
        """Everything that keeps tasks from starting."""
        return [*self.throttles, *self._without_room]

    def measure(self, now: datetime) -> list[Throttle]:
        """Compare the use with the limits, and record those that begin or cease to hold; returns those that are passed."""
        settings = self._settings().limits
        self.use = self.meter.use(settings, now)
        needed_mb = self.use.memory_mb and self.use.memory_mb + self._reserved_mb
        throttles = limits.throttles(replace(self.use, memory_mb=needed_mb), settings)
        if self._parked is not None and now >= self._parked.until:
            self._parked = None
        if all(hold.limit != limits.MEMORY for hold in throttles):
            self._reserved_mb = 0.0
        holds: list[Throttle | Parked] = [*throttles, *([self._parked] if self._parked is not None else [])]
        limits_before, limits_now = {hold.limit for hold in self.throttles}, {hold.limit for hold in holds}
        begun = [
            hold
            for hold in holds
            if hold.limit not in limits_before or (isinstance(hold, Parked) and hold not in self.throttles)
        ]
        if begun or limits_before - limits_now:
            self._db.write(_record, begun, sorted(limits_before - limits_now), now)
        self.throttles = holds
        return [hold for hold in limits.throttles(self.use, settings) if hold.is_passed]

    def note_end(self, finished: Finished, now: datetime) -> None:
        """A worker has ended: if the usage limit of its model is reached, no worker of a model starts before that is over."""
        if not finished.success:
            wait_s = self._settings().tasks.retry_max_s
            parked = limits.parked(finished.result, finished.error_message, now, wait_s)
            if parked is not None and (self._parked is None or parked.until > self._parked.until):
                self._parked = parked

    def reserve(self, memory_mb: float) -> None:
        """A worker was stopped for its memory: it starts again only where it has as much, or nobody else runs."""
        self._reserved_mb = memory_mb

    def recall(self, now: datetime) -> None:
        """At the daemon's start: a model that refused its workers until a time that has not come is not asked before."""
        with self._db.reading() as conn:
            event = events.newest_of(conn, EventKind.MODEL_PARKED)
        if event is not None and (until := parse(str(event["data"]["until"]))) > now:
            self._parked = Parked(until, str(event["data"]["cause"]))
            self.throttles = [self._parked]

    def claim(
        self,
        now: datetime,
        gate: TrustGate,
        others: Sequence[tuple[Key, str | None]],
        in_places: Sequence[str],
        free: int,
        *,
        starts: bool,
    ) -> list[TaskRow]:
        """Lease the tasks that start now: where no place is free, a follower of each worker that leads nobody at work.

        Args:
            gate: Which tasks wait for the user's approval.
            others: The workers that there are, each with its runner.
            in_places: The tasks of those that take a place of `supervisor.max_agents`.
            free: How many more can start at once.
            starts: Whether one of them is just starting.
        """
        settings = self._settings()
        self._bound_backoffs(now, settings.tasks)
        if self._db.read(work_pause.current) is not None or self._stagger_s(now) > 0:
            return []
        room = settings.supervisor.max_agents - len(in_places)
        below = self._db.read(family.pending_below, in_places) if in_places else {}
        lent = below if room <= 0 < settings.supervisor.max_agents else {}
        room = min(free, self._bounded(now, max(room, len({*lent.values()})), starts=starts))

        waiting = {*below.values(), *({key[0] for key, _ in others} - {*in_places})}
        free_memory = FreeMemory(self.meter, others, waiting, settings.limits, available_mb())

        taken: set[str] = set()
        held = {runner for runner in RUNNERS if limits.holding(self.throttles, runner) or not free_memory.fits(runner)}

        def offered(conn: Connection, at: str, priority: int | None) -> Iterable[ReadyTask]:
            if not lent:
                return gate.startable(conn, at, priority=priority, without=held)
            rows = family.ready_among(conn, lent.keys() - taken, at, priority=priority)
            return (row for row in rows if row["runner"] not in held and gate.allows(row))

        def ready(conn: Connection, at: str, *, priority: int | None = None) -> Iterator[ReadyTask]:
            judged = self._held_by_judges(conn)
            for row in offered(conn, at, priority):
                if row["task_id"] in judged:
                    continue
                if free_memory.fits(row["runner"]):
                    yield row
                elif not any(free_memory.fits(runner) for runner in RUNNERS - held):
                    return

        def claim(conn: Connection) -> list[TaskRow]:
            free_memory.reset()
            taken.clear()
            claimed: list[TaskRow] = []
            while len(claimed) < room:
                row = scheduling.claim(
                    conn,
                    session_id=new_id(),
                    lease_s=settings.sessions.lease_s,
                    ageing_s=settings.tasks.ageing_s,
                    now=now,
                    ready=ready,
                    fold=self._fold,
                )
                if row is None:
                    break
                free_memory.take(row["runner"])
                claimed.append(row)
                taken.update(led for led, leader in lent.items() if leader == lent.get(row["task_id"]))
                if traits(row["runner"]).is_model:
                    break
            return claimed

        is_any = (
            room > 0 and held < RUNNERS and self._db.read(lambda conn: next(ready(conn, iso(now)), None)) is not None
        )
        claimed = self._db.write(claim) if is_any else []
        self._lacks_anybody = gate.lacks_anybody
        if claimed and traits(claimed[-1]["runner"]).is_model:
            self._asked_at = now
        self._without_room = self._that_hold_tasks(free_memory.refused)
        return claimed

    def _held_by_judges(self, conn: Connection) -> frozenset[str]:
        if limits.holding_judges(self.throttles) is None:
            return frozenset()
        return frozenset(loop["task_id"] for loop in loops.pending(conn) if is_judged(loop))

    def note_start(self, now: datetime) -> None:
        """A worker has started: the fault that kept others from it is over."""
        if self.pause.clear():
            self._db.write(_record_end_of_pause, now)

    def next_look(self, now: datetime) -> datetime | None:
        """When what holds tasks back may be over; None: nothing does."""
        if (left_s := self._stagger_s(now)) > 0:
            return now + timedelta(seconds=left_s)
        return now + timedelta(seconds=AGAIN_S) if self.throttles or self._lacks_anybody else None

    def _stagger_s(self, now: datetime) -> float:
        """How long nothing is claimed yet after a task for a model, seconds; a clock that was set back makes nobody wait."""
        since_s = STAGGER_S if self._asked_at is None else (now - self._asked_at).total_seconds()
        return STAGGER_S - since_s if 0 <= since_s < STAGGER_S else 0.0

    def _that_hold_tasks(self, refused: Sequence[NoRoom]) -> tuple[NoRoom, ...]:
        """The refusals of runners that a pending task needs."""
        return tuple(hold for hold in refused if self._db.read(tasks.is_any_pending, runner=str(hold.runner)))

    def _bounded(self, now: datetime, room: int, *, starts: bool) -> int:
        """How many tasks may be claimed; while claiming is paused, one, now and then, to see whether the fault is over."""
        if self.pause.now is None or room <= 0:
            return room
        if starts or not self.pause.may_probe(now):
            return 0
        if self._db.write(tasks.end_fault_backoffs):
            self.pause.postpone(now)  # unless this probe says more
            return 1
        self.pause.clear()  # nobody waits for it any more
        return room

    def _bound_backoffs(self, now: datetime, rules: TaskRules) -> None:
        """A clock that was set back makes nobody wait for longer than a backoff can be."""
        latest = after(now, rules.retry_max_s)
        if (self._db.read(tasks.latest_backoff) or "") > latest:
            self._db.write(tasks.bound_backoffs, latest)


def _record(conn: Connection, begun: list[Throttle | Parked], over: list[str], now: datetime) -> None:
    for hold in begun:
        if isinstance(hold, Parked):
            events.record(conn, now, EventKind.MODEL_PARKED({"until": iso(hold.until), "cause": hold.cause}))
        else:
            reached = EventKind.LIMIT_REACHED({"limit": hold.limit, "used": hold.used, "allowed": hold.allowed})
            events.record(conn, now, reached)
    for limit in over:
        events.record(conn, now, EventKind.LIMIT_CLEARED({"limit": limit}))


def _record_end_of_pause(conn: Connection, now: datetime) -> None:
    tasks.end_fault_backoffs(conn)
    events.record(conn, now, EventKind.SUPERVISOR_RESUMED)
