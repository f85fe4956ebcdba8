"""The supervisor: one step that gives ready tasks to workers, follows them, and closes what has ended.

Invariants:
    * :meth:`Supervisor.step` alone changes the attempts in flight; what is slow runs in the server's threads and reports back
      through a queue. A step re-reads the rows, so a lost or doubled nudge is harmless.
    * A task is ``running`` in the database before anything is done for it, and a ``running`` row that nobody here works on
      is taken for lost: it is requeued, never forgotten. (For tasks that sessions claimed: :mod:`corral.work.tasks.leases`.)
    * A worker that another daemon started is followed from the start on as one of this daemon's own: it lives with its keeper
      (:mod:`corral.runners.keeping`), and nothing is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection

from corral.config.roster import Check
from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.sessions import session_end
from corral.core.crash import crash_point
from corral.core.events import EventKind
from corral.core.instants import iso, parse
from corral.core.logs import logger
from corral.core.states import TaskStatus, WorktreePurpose
from corral.runners import keeping
from corral.runners.blame import WORKER_LOST
from corral.runners.process import end_leftovers
from corral.runners.protocol import Observation, Runner, ToolCall
from corral.store import events
from corral.store.rows import Columns, required
from corral.store.rows.tasks import StoredTask, TaskRow
from corral.work.tasks import attempts, combining, followers, leases
from corral.work.tasks.agents import checked
from corral.work.tasks.attempts import INTERRUPTED, Ending
from corral.work.tasks.store import family, tasks
from corral.work.trust.trust import TrustGate
from corral.work.workers import assigning
from corral.work.workers.assigning import keeper_folder
from corral.work.workers.claim_pause import Pause
from corral.work.workers.claiming import Claiming
from corral.work.workers.execution import AttemptContext, Started, adopt, finish, launch, seal, task_marks
from corral.work.workers.in_flight import Attempt, AttemptView, bring_mail, over_limits, reason_to_stop, record
from corral.work.workers.limits import MEMORY, Hold, Key, Use
from corral.work.workers.sweeping import Sweeper
from corral.work.worktrees.allocation import WorktreeContext

log = logger("supervisor")

LOOK_EVERY_S = 1.0
"""Between two looks at workers; an end is seen at once, by the nudge that the process's exit causes."""

MORE_WORKERS = "corral config set supervisor.max_agents 4"
"""Lets workers start where the setting lets none."""

STOPPING_LOOK_S = 0.1
"""The same while a worker is being stopped."""


class Supervisor:
    """Owned by the server; only :meth:`step` is called again and again.

    Args:
        context: The database, the repository, the settings, and the clock that stamps what spawned work has done.
        runners: By name.
        spawn: Runs a function in one of the server's threads.
        spawn_start: The same in threads that only start workers: a start that takes minutes delays the end of no other one.
        nudge: Asks for a step of ``"supervisor"`` or ``"landing"``.
        watch_exit: Makes the server nudge the supervisor when a function returns, which blocks until a worker has ended.
    """

    def __init__(
        self,
        context: WorktreeContext,
        runners: Mapping[str, Runner],
        *,
        spawn: Callable[[Callable[[], None]], None],
        spawn_start: Callable[[Callable[[], None]], None],
        nudge: Callable[[str], None],
        watch_exit: Callable[[Callable[[], None]], None],
    ) -> None:
        self._db = context.db
        self._settings = context.settings
        self._spawn = spawn
        self._spawn_start = spawn_start
        self._nudge = nudge
        self._watch_exit = watch_exit
        self._context = AttemptContext(context, runners, nudge, context.stopping.is_set)
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._reports: deque[Callable[[datetime], None]] = deque()
        self._resuming: set[str] = set()
        self._losing = False
        self._leases = leases.LeaseWatch(context.db, context.settings)
        self._sweeper = Sweeper(context, spawn=spawn, report=self._report, nudge=nudge)
        self._draining = False
        self._leaves_workers = False
        self._recovered = False
        self._claiming = Claiming(context.db, context.settings, fold=context.fold)
        self._killed: set[tuple[str, int]] = set()
        self.on_tool_calls: Callable[[TaskRow, Sequence[ToolCall], datetime], None] = lambda _task, _calls, _now: None
        """Called with the tool calls of a worker that have ended since the last look."""

    @property
    def pause(self) -> Pause | None:
        """Why no task is claimed; None while tasks are."""
        return self._claiming.pause.now

    @property
    def throttles(self) -> list[Hold]:
        """The limits of all workers together that keep tasks from starting."""
        return self._claiming.holds

    @property
    def use(self) -> Use:
        """The use of all workers together at the last step."""
        return self._claiming.use

    @property
    def busy(self) -> str | None:
        """Why no further worker starts: the daemon stops, or as many run or start as may; None where there is room."""
        if self._draining:
            return "The daemon is stopping: it starts no further worker, and the next daemon goes on."
        settings, attempts = self._settings().supervisor, [*self._attempts.values()]
        most = settings.max_agents
        if not most:
            return f"No worker starts, since `supervisor.max_agents` is 0; `{MORE_WORKERS}` lets some start."
        if len(self._in_places([attempt for attempt in attempts if not attempt.finishing])) >= most:
            return f"All {most} workers that `supervisor.max_agents` allows are running."
        if sum(attempt.started is None for attempt in attempts) >= settings.starts_at_once:
            return f"All {settings.starts_at_once} workers that `supervisor.starts_at_once` allows are starting."
        return None

    def at_work(self) -> list[AttemptView]:
        """The attempts in flight, with their state and memory."""
        return [attempt.view(self._claiming.meter.memory_mb(attempt.key)) for attempt in [*self._attempts.values()]]

    @property
    def places_taken(self) -> int:
        """How many agents count of those that `supervisor.max_agents` allows."""
        return len(self._in_places([*self._attempts.values()]))

    @staticmethod
    def _in_places(attempts: Sequence[Attempt]) -> list[str]:
        """The tasks of those that lead none of the others: a leader waits for its followers, and lends one of them its place."""
        leading = {leader for attempt in attempts for leader in attempt.leaders or ()}
        return [attempt.key[0] for attempt in attempts if attempt.key[0] not in leading]

    def kill(self, task_id: str) -> bool:
        """Have the worker of a task stopped soon; whether there is one."""
        keys = [
            attempt.key for attempt in [*self._attempts.values()] if attempt.key[0] == task_id and not attempt.finishing
        ]
        if keys:
            self._killed.update(keys)  # this attempt, and not the one that may follow before the next step
            self._nudge("supervisor")
        return bool(keys)

    def running_count(self) -> int:
        """How many attempts are starting, at work or being closed."""
        return len(self._attempts)

    def unsettled_count(self) -> int:
        """How many of them a daemon that leaves must wait for; workers at work go on without it, if it leaves them."""
        return sum(not attempt.is_at_work for attempt in [*self._attempts.values()])

    def unobserved(self) -> dict[str, str]:
        """By task, why its worker cannot be observed to its end, as of the last step."""
        return {attempt.key[0]: attempt.trouble for attempt in [*self._attempts.values()] if attempt.trouble}

    @property
    def check(self) -> Check:
        """Refuses a runner that could not start anything here."""
        return checked(self._context.runners)

    @property
    def gate(self) -> TrustGate:
        """Which tasks wait for the user's approval at this moment."""
        return self._context.gate()

    def drain(self) -> None:
        """Start nothing new; what runs goes on."""
        self._draining = True

    def stop_all(self, *, leaves_workers: bool = False) -> None:
        """End every worker: the coming steps stop, salvage and mark them ``interrupted``.

        Args:
            leaves_workers: Those at work go on; the next daemon adopts them.
        """
        self._draining, self._leaves_workers = True, leaves_workers
        self._context.worktrees.stopping.set()

    def abandon(self, now: datetime) -> None:
        """At the end of a stop: what could not be ended in time is interrupted too, so that no task is suspected for it."""
        rules = self._settings().tasks
        left = [attempt.key for attempt in self._attempts.values() if self._leaves_workers and attempt.is_at_work]
        self._db.write(interrupt_all, now, rules, left)

    def recover(self, now: datetime) -> None:
        """At the start: adopt the workers that live; the other running tasks become ``interrupted`` until nothing of their worker
        lives; worktrees are repaired."""
        if not self._recovered:  # what runs later is this daemon's own
            self._adopt(now)
            self._db.write(mark_crashed, now, self._settings().tasks, self._attempts)
            self._claiming.recall(now)
            self._recovered = True
        unfinished = (TaskStatus.RUNNING, TaskStatus.INTERRUPTED)
        rows = self._db.read(tasks.in_status, *unfinished)
        self._context.worktrees.kept.update(assigning.kept_trees(self._context.worktrees))
        self._sweeper.recover({*(row["task_id"] for row in rows), *self._context.worktrees.kept})
        keeping.forget_others(
            self._context.worktrees.project.attempts_dir,
            [keeper_folder(self._context.worktrees, row).name for row in rows],
        )

    def _adopt(self, now: datetime) -> None:
        """Follow the workers of an earlier daemon; exits that nobody saw are found at the first step."""
        for row in self._db.read(tasks.in_status, TaskStatus.RUNNING):
            attempt = Attempt(row)
            if attempt.key in self._attempts or (started := adopt(self._context, row, now)) is None:
                continue
            self._end_judging(row)
            attempt.started, self._attempts[attempt.key] = started, attempt
            log.info("worker_adopted", task_id=row["task_id"], attempt=row["fencing_token"], pid=started.running.pid)
            self._watch_exit(started.running.await_exit)

    def _end_judging(self, row: TaskRow) -> None:
        """End what a daemon that died left of its judging of an ended worker: it begins again."""
        judged_in = [
            place for place in self._sweeper.of_task(row["task_id"]) if place["purpose"] == WorktreePurpose.VERIFY
        ]
        marks = task_marks(self._context.worktrees, row["task_id"])
        while judged_in and end_leftovers(marks, None, None):
            pass
        for place in judged_in:
            self._sweeper.rolling_back(place)()

    def step(self, now: datetime) -> datetime | None:
        """Do one step.

        Returns:
            When to look again; None: only when nudged.
        """
        awake = self._context.awake.at(now)
        while self._reports:
            self._reports.popleft()(now)
        if self._db.damage is not None and self._context.is_stopping():
            return self._end_without_rows(now)
        running = self._db.read(tasks.in_status, TaskStatus.RUNNING, TaskStatus.INTERRUPTED)
        self._follow(running, now, awake)
        with self._db.reading() as conn:  # one transaction: most steps find nothing of all this
            is_any_decided, leaderless = combining.is_any_decided(conn), family.leaderless(conn)
        self._settle_families(is_any_decided, leaderless, now)
        if self._leases.look(now):
            self._nudge("supervisor")
        if not self._draining:
            self._resume(running)
            self._claim(now)
        self._sweeper.sweep(now, {task_id for task_id, _ in self._attempts})
        return self._next_look(now)

    def _settle_families(self, is_any_decided: bool, leaderless: Sequence[StoredTask], now: datetime) -> None:
        """Combine what several agents made of one task; end the followers of leaders that have ended."""
        rules = self._settings().tasks
        if is_any_decided:
            self._db.write(combining.settle_all, now, rules)
            self._nudge("landing")
            self._nudge("supervisor")
        if leaderless:
            self._db.write(followers.end, leaderless, now, rules)
            self._nudge("supervisor")

    # -- attempts in flight ----------------------------------------------------------------------------------------

    def _follow(self, rows: Iterable[TaskRow], now: datetime, awake: datetime) -> None:
        present = {(row["task_id"], row["fencing_token"]): row for row in rows if row["status"] == TaskStatus.RUNNING}
        lost = [row for key, row in present.items() if key not in self._attempts]
        self._losing = not all(self._requeue_lost(row, now) for row in lost)
        lease_s = self._settings().sessions.lease_s
        news: list[tuple[Attempt, Columns]] = []
        for attempt in self._attempts.values():
            if attempt.started is None or attempt.finishing:
                continue
            try:
                self._stop_if_due(attempt, present.get(attempt.key), awake)
                observation = attempt.started.running.observe(awake)
                attempt.note_trouble(
                    f"does not end, though it was killed: {observation.undying}" if observation.undying else ""
                )
                self._claiming.meter.note(attempt.key, observation, now)
                self.on_tool_calls(attempt.task, observation.tool_calls, now)
            except OSError as error:  # of this worker alone, e.g. its output cannot be read just now
                attempt.note_trouble(f"cannot be observed, so that its end would go unnoticed: {error}")
                continue
            if observation.finished is not None:
                attempt.finishing = True
                self._claiming.meter.forget(attempt.key, attempt.task["runner"], attempt.peak_mb)
                self._claiming.note_end(observation.finished, now)
                if attempt.peak_mb is not None or observation.usage.turns:  # counted before the attempt is closed
                    news.append((attempt, {"memory_mb": attempt.peak_mb, "usage": asdict(observation.usage)}))
                run = self._spawn_start if attempt.started.is_loop else self._spawn
                run(self._finishing(attempt, observation))
            elif (values := attempt.news(observation, lease_s, now)) is not None:
                news.append((attempt, values))
        if news:
            self._db.write(record, news, now)
        self._stop_over_limits(now, awake)
        bring_mail(self._db, self._attempts.values(), now)

    def _stop_if_due(self, attempt: Attempt, row: TaskRow | None, awake: datetime) -> None:
        is_killed = attempt.key in self._killed
        all_end = self._context.is_stopping() and not self._leaves_workers
        reason = reason_to_stop(row, all_end=all_end, is_killed=is_killed)
        if reason is not None and not attempt.stopping:
            attempt.stop(awake, *reason)

    def _stop_over_limits(self, now: datetime, awake: datetime) -> None:
        for attempt, throttle, reason in over_limits(self._claiming.measure(now), [*self._attempts.values()]):
            self._claiming.reserve(attempt.peak_mb or 0 if throttle.limit == MEMORY else 0)
            attempt.stop(awake, *reason)

    def _end_without_rows(self, now: datetime) -> datetime | None:
        """Stop the workers while the database is damaged: nothing of them can be recorded, and no later daemon knows them."""
        awake = self._context.awake.at(now)
        for attempt in list(self._attempts.values()):
            if attempt.started is not None and not attempt.finishing:
                self._stop_if_due(attempt, attempt.task, awake)
                if attempt.started.running.observe(awake).finished is not None:
                    del self._attempts[attempt.key]
        return now + timedelta(seconds=STOPPING_LOOK_S) if self._attempts else None

    def _requeue_lost(self, row: TaskRow, now: datetime) -> bool:
        """Requeue a running task that no attempt here works on: its worker was lost by an unforeseen failure.

        Returns:
            False if something of it is still alive: it was killed, and the next step looks again.
        """
        if self._is_alive(row):
            return False
        seal(self._context.worktrees, row)
        ending = Ending(False, WORKER_LOST, "Its worker was lost; see the daemon's log.", is_fault=True)
        rules = self._settings().tasks

        def requeue(conn: Connection) -> None:
            attempts.end(conn, row["task_id"], row["fencing_token"], ending, now, rules)
            session_end.end_attempt(conn, required(row["session_id"]), WORKER_LOST, now, leases.offering(rules))

        self._db.write(requeue)
        keeping.forget(keeper_folder(self._context.worktrees, row))
        for worktree in self._sweeper.of_task(row["task_id"]):
            self._spawn(self._sweeper.rolling_back(worktree))
        return True

    def _is_alive(self, row: TaskRow) -> bool:
        """Kill what is left of a task's worker and of its keeper; whether anything was left."""
        folders = [Path(worktree["path"]) for worktree in self._sweeper.of_task(row["task_id"])]
        marks = task_marks(self._context.worktrees, row["task_id"])
        if not keeping.revoke(keeper_folder(self._context.worktrees, row), marks):
            return True
        return bool(end_leftovers(marks, row["pid"], row["pid_started"], folders[0] if folders else None))

    # -- next tasks ------------------------------------------------------------------------------------------------

    def _claim(self, now: datetime) -> None:
        self._read_leaders()
        starting = sum(attempt.started is None for attempt in self._attempts.values())
        free = self._settings().supervisor.starts_at_once - starting
        at_work = [attempt for attempt in self._attempts.values() if not attempt.finishing]
        others = [(attempt.key, attempt.task["runner"]) for attempt in at_work]
        in_places = self._in_places(at_work)
        leased = self._claiming.claim(now, self._context.gate(), others, in_places, free, starts=starting > 0)
        if leased:
            crash_point("task.claimed")
        for row in leased:
            attempt = Attempt(row)
            self._attempts[attempt.key] = attempt
            self._spawn_start(self._starting(attempt))

    def _read_leaders(self) -> None:
        unread = [attempt for attempt in self._attempts.values() if attempt.leaders is None]
        if unread:
            with self._db.reading() as conn:
                for attempt in unread:
                    attempt.leaders = family.ancestors(conn, attempt.key[0])

    def _resume(self, rows: Iterable[TaskRow]) -> None:
        for row in rows:
            if row["status"] == TaskStatus.INTERRUPTED and row["task_id"] not in self._resuming:
                self._resuming.add(row["task_id"])
                self._spawn(self._resuming_task(row))

    def _next_look(self, now: datetime) -> datetime | None:
        due = []
        stopping = any(attempt.stopping and not attempt.finishing for attempt in self._attempts.values())
        if stopping or self._resuming or self._losing:
            due.append(now + timedelta(seconds=STOPPING_LOOK_S))
        elif self._attempts:
            due.append(now + timedelta(seconds=LOOK_EVERY_S))
        if self._leases.look_at is not None:
            due.append(self._leases.look_at)
        if self._sweeper.due is not None:
            due.append(self._sweeper.due)
        if (again := self._claiming.next_look(now)) is not None:
            due.append(again)
        if not self._draining and self._claiming.pause.now is not None:
            due.append(max(now + timedelta(seconds=LOOK_EVERY_S), self._claiming.pause.now.probe_at))
        if not self._draining and (backoff := self._db.read(tasks.next_due, iso(now))):
            due.append(parse(backoff))
        return min(due, default=None)

    # -- in the server's threads; each reports back, also after an exception ----------------------------------------

    def _starting(self, attempt: Attempt) -> Callable[[], None]:
        def start() -> None:
            started: Started | Ending | None = None
            try:
                started = launch(self._context, attempt.task)
            finally:
                self._report(lambda now: self._has_started(attempt, started, now))

        return start

    def _has_started(self, attempt: Attempt, started: Started | Ending | None, now: datetime) -> None:
        if isinstance(started, Started):
            attempt.started, attempt.task = started, started.task
            self._watch_exit(started.running.await_exit)
            self._claiming.note_start(now)
            return
        self._has_ended(attempt, now)
        if started is not None and started.is_fault:
            first = self._claiming.pause.start_failed(attempt.task["task_id"], started, now, self._settings().tasks)
            if first:
                paused = EventKind.SUPERVISOR_PAUSED({"reason": started.error_message})
                self._db.write(events.record, now, paused)

    def _finishing(self, attempt: Attempt, observation: Observation) -> Callable[[], None]:
        assert attempt.started is not None and observation.finished is not None
        started, finished, used = attempt.started, observation.finished, asdict(observation.usage)

        def close() -> None:
            try:
                finish(self._context, started, finished, used)
            finally:
                self._report(lambda now: self._has_ended(attempt, now))

        return close

    def _has_ended(self, attempt: Attempt, now: datetime) -> None:
        self._attempts.pop(attempt.key, None)
        self._killed.discard(attempt.key)
        self._sweeper.later(now)  # its worktree may have had to stay

    def _resuming_task(self, row: TaskRow) -> Callable[[], None]:
        def resume() -> None:
            try:
                if self._is_alive(row):
                    return
                seal(self._context.worktrees, row)
                now, rules = self._context.worktrees.clock(), self._settings().tasks
                self._db.write(attempts.resume, row["task_id"], now, rules)
                keeping.forget(keeper_folder(self._context.worktrees, row))
                crash_point("task.resumed")
                kept = self._context.worktrees.kept.get(row["task_id"])
                for worktree in self._sweeper.of_task(row["task_id"]):
                    if worktree["worktree_id"] != kept:
                        self._sweeper.rolling_back(worktree)()
            finally:
                self._report(lambda _now: self._resuming.discard(row["task_id"]))

        return resume

    def _report(self, report: Callable[[datetime], None]) -> None:
        self._reports.append(report)
        self._nudge("supervisor")


# -- Running tasks whose workers are gone or going: what a daemon's start, and its end, makes of them.
#
# Workers that another daemon started, and that live, are followed (`corral.work.workers.execution.adopt`).


def mark_crashed(conn: Connection, now: datetime, rules: TaskRules, adopted: Collection[Key]) -> None:
    """The workers of these tasks died with their daemon.

    Args:
        adopted: The attempts whose workers did not.
    """
    for row in _running_without(conn, adopted):
        attempts.crash(conn, row, now, rules)
        session_end.end_attempt(conn, required(row["session_id"]), INTERRUPTED, now, leases.offering(rules))


def interrupt_all(conn: Connection, now: datetime, rules: TaskRules, left: Collection[Key]) -> None:
    """Interrupt every running task, at the end of a stop.

    Args:
        left: The attempts whose workers go on, for the next daemon.
    """
    for row in _running_without(conn, left):
        attempts.interrupt(conn, row, "The daemon was stopped before it had ended.", now)
        session_end.end_attempt(conn, required(row["session_id"]), INTERRUPTED, now, leases.offering(rules))


def _running_without(conn: Connection, attempts_left: Collection[Key]) -> list[TaskRow]:
    rows = tasks.in_status(conn, TaskStatus.RUNNING)
    return [row for row in rows if (row["task_id"], row["fencing_token"]) not in attempts_left]
