"""Attempts in flight in this daemon: news of them that is not in the database yet, and the mail that they get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from corral.coordination.mail import mailing
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.instants import after, iso
from corral.core.logs import logger
from corral.core.payload import Payload
from corral.core.states import MailWay
from corral.runners.blame import LIMIT_REACHED, WORKER_LOST
from corral.runners.protocol import Observation, Running
from corral.store.protocol import Store
from corral.store.rows import Columns, required
from corral.store.rows.tasks import TaskRow
from corral.work.swarm.api import AgentState
from corral.work.tasks.attempts import INTERRUPTED
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.workers.execution import Started
from corral.work.workers.limits import MEMORY, Throttle

log = logger("supervisor")

BEAT_EVERY_S = 20.0
"""How often a worker that shows nothing new has its lease and its session renewed."""

PATIENCE_S = 3.0
"""How long mail to a worker is left to its hooks: they bring it at the next tool call, which costs nothing."""


@dataclass(frozen=True)
class AttemptView:
    """An attempt in flight.

    Attributes:
        number: Its fencing token.
        memory_mb: Of all its processes, MiB; None before the first measurement.
    """

    task_id: str
    number: int
    session_id: str
    state: AgentState
    memory_mb: int | None


@dataclass
class Attempt:
    """One claimed task: first starting (``started`` is None), then at work, then finishing."""

    task: TaskRow
    started: Started | None = None
    finishing: bool = False
    stopping: bool = False
    shown: Payload = field(default_factory=dict)
    beaten_at: datetime | None = None
    peak_mb: int | None = None
    """The most memory that its processes were seen to use, MiB."""
    trouble: str = ""
    """Why its worker cannot be observed to its end, as of the last step; empty if it can."""
    leaders: Sequence[str] | None = None
    """The tasks that lead it, the nearest first; None: not read yet."""

    @property
    def key(self) -> tuple[str, int]:
        """The task and its fencing token."""
        return self.task["task_id"], self.task["fencing_token"]

    @property
    def is_at_work(self) -> bool:
        """Whether its worker runs, and nothing ends it yet."""
        return self.started is not None and not (self.stopping or self.finishing)

    @property
    def session_id(self) -> str:
        """The session of its worker."""
        return required(self.task["session_id"])

    def view(self, memory_mb: float | None) -> AttemptView:
        """The attempt for other modules, with the memory that it uses now."""
        ending = self.stopping or self.finishing
        state: AgentState = "terminating" if ending else "spawning" if self.started is None else "running"
        return AttemptView(*self.key, self.session_id, state, None if memory_mb is None else round(memory_mb))

    def note_trouble(self, reason: str) -> None:
        """Say in the log, once, why its worker cannot be followed; the next step looks again. Empty: it can."""
        if reason not in ("", self.trouble):
            log.warning("worker_not_observed", task_id=self.task["task_id"], reason=reason)
        self.trouble = reason

    @property
    def listener(self) -> Running | None:
        """Its worker, while it accepts messages."""
        running = self.started.running if self.started and self.is_at_work else None
        return running if running is not None and running.listens else None

    def stop(self, awake: datetime, code: str, message: str) -> None:
        """Have its worker stopped; for the first reason only."""
        if self.started is not None and not self.stopping:
            self.stopping = True
            self.started.running.stop(awake, code, message)

    def news(self, observation: Observation, lease_s: float, now: datetime) -> Columns | None:
        """The news that is not in the database yet; None if there is none."""
        if observation.memory_mb is not None:
            self.peak_mb = max(self.peak_mb or 0, round(observation.memory_mb))
        shown = {"progress": observation.progress, "usage": asdict(observation.usage)}
        due = self.beaten_at is None or abs(now - self.beaten_at) >= timedelta(seconds=BEAT_EVERY_S)
        if shown == self.shown and not due:
            return None
        values = {**shown, "lease_expires_at": after(now, lease_s), "memory_mb": self.peak_mb}
        if observation.progressed:
            values["progress_at"] = iso(now)
        self.shown, self.beaten_at = shown, now
        return values


def record(conn: Connection, news: Iterable[tuple[Attempt, Columns]], now: datetime) -> None:
    """Write the news, each a heartbeat; nothing of an attempt that lost its lease."""
    for attempt, values in news:
        task_id, token = attempt.key
        if attempt_rows.change_open(conn, task_id, token, values):
            session_rows.beat(conn, attempt.session_id, iso(now))


class _NotListening(Exception):
    """A worker that accepts no messages any more."""


def bring_mail(db: Store, attempts: Iterable[Attempt], now: datetime) -> None:
    """Deliver mail to workers that no hook has brought it to: a worker that only thinks, or waits, runs no hook."""
    listeners = {attempt.session_id: running for attempt in attempts if (running := attempt.listener)}
    if not listeners:
        return
    long_ago = after(now, -PATIENCE_S)
    for session_id in db.read(message_rows.kept_waiting, list(listeners), long_ago):
        try:
            db.write(_tell, session_id=session_id, worker=listeners[session_id], now=now)
        except _NotListening:  # it waits on, and is sent back when the session ends
            continue


def _tell(conn: Connection, session_id: str, worker: Running, now: datetime) -> None:
    """Deliver mail and mark it as delivered in one transaction: a worker that does not accept it rolls the marks back."""
    texts = mailing.deliver(conn, session_id, MailWay.RUNNER, now)
    if texts and not worker.tell("\n".join(texts)):
        raise _NotListening


# -- Which workers are stopped, and why: a decision about each by itself, and one about all of them together

Reason = tuple[str, str]
"""An error code, and a line for a person."""


def reason_to_stop(row: TaskRow | None, *, all_end: bool, is_killed: bool) -> Reason | None:
    """The first reason to stop a worker; None: it goes on.

    Args:
        row: Its task, where that is still its own.
        all_end: Whether the daemon ends all work.
        is_killed: Whether a person ended this one.
    """
    if row is None:
        return WORKER_LOST, "The task was taken away from this worker."
    if row["cancel_reason"] is not None:
        return "cancelled", str(row["cancel_reason"])
    if all_end:
        return INTERRUPTED, "The daemon was stopped."
    if is_killed:
        return "agent_killed", "Its worker was ended by `corral agent kill`."
    return None


def over_limits(passed: Sequence[Throttle], attempts: Sequence[Attempt]) -> Iterator[tuple[Attempt, Throttle, Reason]]:
    """The workers that are stopped because a limit of all together is passed: for memory the youngest, else all of models.

    Args:
        passed: The limits.
        attempts: Those in flight, the youngest last.
    """
    for throttle in passed:
        users = [attempt for attempt in attempts if attempt.is_at_work and throttle.holds(attempt.task["runner"])]
        if throttle.limit == MEMORY:
            is_ending = any(attempt.stopping and not attempt.finishing for attempt in attempts)
            users = [] if is_ending else users[-1:]  # checked again once its memory is free
        for attempt in users:
            yield attempt, throttle, (LIMIT_REACHED, f"It was stopped: {throttle.reason}")
