"""The supervisor: one step that gives ready tasks to workers, follows them, and closes what has ended.

Invariants:
    * :meth:`Supervisor.step` alone changes who is at work; what is slow runs in the server's threads and reports back
      through a queue. A step re-reads the rows, so a lost or doubled nudge is harmless.
    * A task is ``running`` in the database before anything is done for it, and a ``running`` row that nobody here works on
      is taken for lost: it is requeued, never forgotten. (What sessions claimed is theirs: :mod:`corral.work.leases`.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Tasks as TaskRules
from corral.config.roster import Check
from corral.models.crash import crash_point
from corral.models.identifiers import new_id
from corral.models.instants import iso, parse
from corral.models.states import TaskStatus, WorktreePurpose, WorktreeState
from corral.runners.process import end_leftovers
from corral.runners.protocol import Observation, Runner
from corral.store import tasks
from corral.store import worktrees as worktree_rows
from corral.work import attempts, departures, leases, scheduling
from corral.work.agents import checked
from corral.work.allocation import Grounds, put_right, tidy_branches
from corral.work.at_work import Attempt, bring_mail, record
from corral.work.attempts import INTERRUPTED, Ending
from corral.work.execution import Site, Started, finish, launch

Row = dict[str, Any]

LOOK_EVERY_S = 1.0
"""Between two looks at workers; an end is seen at once, by the nudge that the process's exit causes."""

STOPPING_LOOK_S = 0.1
"""The same while a worker is being stopped."""

SWEEP_EVERY_S = 30.0
"""Between two tries to remove a worktree that could not be removed."""

LEASES_EVERY_S = 15.0
"""Between two looks at what sessions hold; the end of one is seen at once, by a nudge."""

LOST = "worker_lost"


class Supervisor:
    """Owned by the server; only :meth:`step` is called again and again.

    Args:
        grounds: The database, the repository, the settings, and the clock that stamps what spawned work has done.
        runners: By name.
        spawn: Runs a function in one of the server's threads.
        nudge: Asks for a step of ``"supervisor"`` or ``"landing"``.
        watch_exit: Makes the server nudge the supervisor when a process ends.
    """

    def __init__(
        self,
        grounds: Grounds,
        runners: Mapping[str, Runner],
        *,
        spawn: Callable[[Callable[[], None]], None],
        nudge: Callable[[str], None],
        watch_exit: Callable[[int], None],
    ) -> None:
        self._db = grounds.db
        self._settings = grounds.settings
        self._spawn = spawn
        self._nudge = nudge
        self._watch_exit = watch_exit
        self._site = Site(grounds, runners, nudge, grounds.stopping.is_set)
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._reports: deque[Callable[[datetime], None]] = deque()
        self._resuming: set[str] = set()
        self._losing = False
        self._leased = False
        self._righting: set[str] = set()
        self._sweep_at: datetime | None = None
        self._draining = False

    def running_count(self) -> int:
        """How many attempts are starting, at work or being closed."""
        return len(self._attempts)

    @property
    def check(self) -> Check:
        """Refuses a runner that could not start anything here."""
        return checked(self._site.runners)

    def drain(self, now: datetime) -> None:
        """Start nothing new; what runs goes on."""
        self._draining = True

    def stop_all(self, now: datetime) -> None:
        """End every worker: the coming steps stop, salvage and mark them ``interrupted``."""
        self._draining = True
        self._site.grounds.stopping.set()

    def recover(self, now: datetime) -> None:
        """At the start: running tasks become ``interrupted`` until nothing of their worker lives; worktrees are put right."""
        self._db.write(lambda conn: _interrupt_all(conn, now, self._settings().tasks))
        interrupted = {row["task_id"] for row in self._db.read(lambda conn: tasks.in_status(conn, "interrupted"))}
        for row in self._db.read(worktree_rows.listing):
            half_done = row["state"] != WorktreeState.READY
            abandoned = row["purpose"] == WorktreePurpose.TASK
            if (
                row["purpose"] != WorktreePurpose.VERIFY
                and (half_done or abandoned)
                and row["task_id"] not in interrupted
            ):
                self._spawn(self._putting_right(row))

    def step(self, now: datetime) -> datetime | None:
        """Look once.

        Returns:
            When to look again; None: only when nudged.
        """
        while self._reports:
            self._reports.popleft()(now)
        running = self._db.read(lambda conn: tasks.in_status(conn, TaskStatus.RUNNING, TaskStatus.INTERRUPTED))
        self._follow(running, now)
        self._leased = bool(self._db.read(leases.held))
        if self._leased and self._db.write(lambda conn: leases.keep(conn, now, self._settings())):
            self._nudge("supervisor")
        if not self._draining:
            self._resume(running)
            self._claim(now)
        self._sweep(now)
        return self._next_look(now)

    # -- who is at work --------------------------------------------------------------------------------------------

    def _follow(self, rows: Iterable[Row], now: datetime) -> None:
        present = {(row["task_id"], row["fencing_token"]): row for row in rows if row["status"] == TaskStatus.RUNNING}
        lost = [row for key, row in present.items() if key not in self._attempts]
        self._losing = not all(self._requeue_lost(row, now) for row in lost)
        lease_s = self._settings().sessions.lease_s
        news: list[tuple[Attempt, Row]] = []
        for attempt in self._attempts.values():
            if attempt.started is None or attempt.finishing:
                continue
            self._stop_if_due(attempt, present.get(attempt.key), now)
            seen = attempt.started.running.observe(now)
            if seen.finished is not None:
                attempt.finishing = True
                self._spawn(self._finishing(attempt, seen))
            elif (values := attempt.news(seen, lease_s, now)) is not None:
                news.append((attempt, values))
        if news:
            self._db.write(lambda conn: record(conn, news, now))
        bring_mail(self._db, self._attempts.values(), now)

    def _stop_if_due(self, attempt: Attempt, row: Row | None, now: datetime) -> None:
        """Stop a worker once, for the first reason there is."""
        assert attempt.started is not None
        if attempt.stopping:
            return
        if row is None:
            reason = LOST, "The task was taken away from this worker."
        elif row["cancel_reason"] is not None:
            reason = "cancelled", str(row["cancel_reason"])
        elif self._site.is_stopping():
            reason = INTERRUPTED, "The daemon was stopped."
        else:
            return
        attempt.stopping = True
        attempt.started.running.stop(now, *reason)

    def _requeue_lost(self, row: Row, now: datetime) -> bool:
        """A running task that nobody works on: what worked on it failed in a way nobody foresaw.

        Returns:
            False if something of it is still alive: it was killed, and the next step looks again.
        """
        if end_leftovers(row["task_id"], row["pid"], row["pid_started"]):
            return False
        ending = Ending(False, LOST, "Its worker was lost; see the daemon's log.")
        rules = self._settings().tasks

        def requeue(conn: Connection) -> None:
            attempts.end(conn, row["task_id"], row["fencing_token"], ending, now, rules)
            departures.end_attempt(conn, row["session_id"], LOST, now, rules)

        self._db.write(requeue)
        for worktree in self._worktrees_of(row["task_id"]):
            self._spawn(self._putting_right(worktree))
        return True

    # -- who is next -----------------------------------------------------------------------------------------------

    def _claim(self, now: datetime) -> None:
        settings = self._settings()
        at_work = sum(not attempt.finishing for attempt in self._attempts.values())
        room = settings.supervisor.max_agents - at_work
        if room <= 0 or self._db.read(lambda conn: next(tasks.ready(conn, iso(now)), None)) is None:
            return

        def claim(conn: Connection) -> list[Row]:
            claimed: list[Row] = []
            while len(claimed) < room:
                row = scheduling.claim(
                    conn,
                    session_id=new_id(),
                    lease_s=settings.sessions.lease_s,
                    ageing_s=settings.tasks.ageing_s,
                    now=now,
                )
                if row is None:
                    break
                claimed.append(row)
            return claimed

        leased = self._db.write(claim)
        crash_point("task.claimed")
        for row in leased:
            attempt = Attempt(row)
            self._attempts[attempt.key] = attempt
            self._spawn(self._starting(attempt))

    def _resume(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row["status"] == TaskStatus.INTERRUPTED and row["task_id"] not in self._resuming:
                self._resuming.add(row["task_id"])
                self._spawn(self._resuming_one(row))

    def _sweep(self, now: datetime) -> None:
        if self._sweep_at is None or now < self._sweep_at:
            return
        self._sweep_at = None
        for row in self._db.read(lambda conn: worktree_rows.listing(conn, states=(WorktreeState.RECLAIMING,))):
            if row["note"] is not None or self._is_forsaken(row):
                self._spawn(self._putting_right(row))
        self._spawn(lambda: tidy_branches(self._site.grounds))

    def _is_forsaken(self, worktree: Row) -> bool:
        """A task's worktree that was going when whoever removed it failed, so that not even a note says why it stays."""
        at_work = {task_id for task_id, _ in self._attempts}
        mine = worktree["purpose"] == WorktreePurpose.TASK
        return mine and worktree["worktree_id"] not in self._righting and worktree["task_id"] not in at_work

    def _next_look(self, now: datetime) -> datetime | None:
        due = []
        stopping = any(attempt.stopping and not attempt.finishing for attempt in self._attempts.values())
        if stopping or self._resuming or self._losing:
            due.append(now + timedelta(seconds=STOPPING_LOOK_S))
        elif self._attempts:
            due.append(now + timedelta(seconds=LOOK_EVERY_S))
        elif self._leased:
            due.append(now + timedelta(seconds=LEASES_EVERY_S))
        if self._sweep_at is not None:
            due.append(self._sweep_at)
        if not self._draining and (backoff := self._db.read(lambda conn: tasks.next_due(conn, iso(now)))):
            due.append(parse(backoff))
        return min(due, default=None)

    # -- what runs in the server's threads; each reports back, whatever happens ------------------------------------

    def _starting(self, attempt: Attempt) -> Callable[[], None]:
        def start() -> None:
            started: Started | None = None
            try:
                started = launch(self._site, attempt.task)
            finally:
                self._report(lambda now: self._has_started(attempt, started, now))

        return start

    def _has_started(self, attempt: Attempt, started: Started | None, now: datetime) -> None:
        attempt.started = started
        if started is None:
            self._has_ended(attempt, now)
        else:
            attempt.task = started.task
            self._watch_exit(started.running.pid)

    def _finishing(self, attempt: Attempt, seen: Observation) -> Callable[[], None]:
        assert attempt.started is not None and seen.finished is not None
        worktree, finished, used = attempt.started.worktree, seen.finished, attempt.used(seen.usage)

        def close() -> None:
            try:
                finish(self._site, attempt.task, worktree, finished, used)
            finally:
                self._report(lambda now: self._has_ended(attempt, now))

        return close

    def _has_ended(self, attempt: Attempt, now: datetime) -> None:
        self._attempts.pop(attempt.key, None)
        self._sweep_later(now)  # its worktree may have had to stay

    def _resuming_one(self, row: Row) -> Callable[[], None]:
        def resume() -> None:
            try:
                if end_leftovers(row["task_id"], row["pid"], row["pid_started"]):
                    return
                now, rules = self._site.grounds.clock(), self._settings().tasks
                self._db.write(lambda conn: attempts.resume(conn, row["task_id"], now, rules))
                crash_point("task.resumed")
                for worktree in self._worktrees_of(row["task_id"]):
                    self._putting_right(worktree)()
            finally:
                self._report(lambda _now: self._resuming.discard(row["task_id"]))

        return resume

    def _putting_right(self, worktree: Row) -> Callable[[], None]:
        worktree_id = worktree["worktree_id"]
        self._righting.add(worktree_id)

        def right() -> None:
            gone = False
            try:
                gone = put_right(self._site.grounds, worktree)
            finally:
                self._report(lambda now: self._was_put_right(worktree_id, gone, now))

        return right

    def _was_put_right(self, worktree_id: str, gone: bool, now: datetime) -> None:
        self._righting.discard(worktree_id)
        if gone:
            self._nudge("landing")  # a branch that has landed may have waited for this
        else:
            self._sweep_later(now)

    def _sweep_later(self, now: datetime) -> None:
        self._sweep_at = self._sweep_at or now + timedelta(seconds=SWEEP_EVERY_S)

    def _report(self, report: Callable[[datetime], None]) -> None:
        self._reports.append(report)
        self._nudge("supervisor")

    def _worktrees_of(self, task_id: str) -> list[Row]:
        rows = self._db.read(lambda conn: worktree_rows.listing(conn, purposes=(WorktreePurpose.TASK,)))
        return [row for row in rows if row["task_id"] == task_id]


def _interrupt_all(conn: Connection, now: datetime, rules: TaskRules) -> None:
    for row in tasks.in_status(conn, TaskStatus.RUNNING):
        attempts.interrupt(conn, row, "The daemon was stopped while it ran.", now)
        departures.end_attempt(conn, row["session_id"], INTERRUPTED, now, rules)
