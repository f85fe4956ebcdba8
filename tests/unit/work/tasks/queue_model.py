"""The queue as a few plain rules over a dictionary: what the real one is compared with, step by step.

Nothing of the package is used but its settings: what is wrong there is not wrong here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from zlib import crc32

LOST = ("failed", "dead", "cancelled")
TERMINAL = ("completed", *LOST)
OPEN_MERGE = "queued"
RESERVATIONS = 16
BY_CONVENTION = "cancelled_by_orchestrator"


@dataclass
class Rules:
    """The settings that matter; durations in seconds."""

    max_retries: int | None
    max_crashes: int
    initial_s: float
    max_s: float
    ageing_s: float
    unblock_on: str

    def backoff(self, times: int, task_id: str) -> float:
        pause = min(self.max_s, self.initial_s * 2.0 ** (times - 1))
        jitter = 0.1 * pause * crc32(f"{task_id}/{times}".encode()) / 2**32
        return round(pause + jitter if pause + jitter <= self.max_s else pause - jitter, 3)


@dataclass
class ModelTask:
    """One task; ``seq`` is its place in the order of submission."""

    task_id: str
    seq: int
    created_s: float
    priority: int
    parents: list[str]
    ignores_failure: bool
    claims: frozenset[str]
    needs: frozenset[str]
    is_offered: bool
    retries: int | None
    state: str = "waiting"
    error_code: str | None = None
    culprit: str | None = None
    due_s: float = 0.0
    attempts: int = 0
    crashes: int = 0
    faults: int = 0
    token: int = 0
    has_started: bool = False
    holder: str | None = None
    asked: str | None = None
    merges: list[tuple[str, str]] = field(default_factory=list)


class QueueModel:
    """What must be true of a queue."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.tasks: dict[str, ModelTask] = {}

    # -- which is next

    def next_for_a_runner(self, now_s: float) -> str | None:
        """The task that a runner gets: never two at once whose worker died with a daemon twice in a row."""
        suspect_runs = any(
            t.crashes > 1 and t.state in ("running", "interrupted") and not t.is_offered for t in self.tasks.values()
        )
        ready = [t for t in self._ready(now_s) if not t.is_offered and not (suspect_runs and t.crashes > 1)]
        return self._first(ready, now_s)

    def next_for_a_session(self, able: frozenset[str], now_s: float) -> str | None:
        """The task that a session with these capabilities gets."""
        return self._first([t for t in self._ready(now_s) if t.is_offered and t.needs <= able], now_s)

    def _ready(self, now_s: float) -> Iterator[ModelTask]:
        return (t for t in self.tasks.values() if t.state == "pending" and t.due_s <= now_s)

    def _first(self, ready: list[ModelTask], now_s: float) -> str | None:
        """Highest priority after ageing, then the oldest; beside what runs first what shares nothing with it.

        Of what is passed over, the first have their claims reserved: what would keep them waiting is passed over too.
        """

        def level(task: ModelTask) -> int:
            steps = (now_s - task.created_s) // self.rules.ageing_s if self.rules.ageing_s else 0
            return min(10, task.priority + int(steps))

        reserved: list[ModelTask] = []
        last_choice: ModelTask | None = None
        for task in sorted(ready, key=lambda t: (-level(t), t.seq)):
            beside = self._beside(task)
            if beside != "no" and any(self._keeps_waiting(task, holder) for holder in reserved):
                continue
            if beside == "free" and not any(task.claims & holder.claims for holder in reserved):
                return task.task_id
            if beside != "free" and len(reserved) < RESERVATIONS:
                reserved.append(task)
            if beside != "no":
                last_choice = last_choice or task
        return last_choice.task_id if last_choice else None

    def _keeps_waiting(self, task: ModelTask, blocked: ModelTask) -> bool:
        """Whether a task that is blocked now could not start, were only this one left of those it cannot run beside."""
        if self._beside(blocked) != "no":
            return False
        stays = [t for t in self.tasks.values() if t.state == "running" and self._against(blocked, [t]) != "no"]
        return bool(task.claims & blocked.claims) and self._against(blocked, [*stays, task]) == "no"

    def _beside(self, task: ModelTask) -> str:
        return self._against(task, [other for other in self.tasks.values() if other.state == "running"])

    def _against(self, task: ModelTask, others: Iterable[ModelTask]) -> str:
        """``free``, ``partly`` or ``no``: more than half of what one side claims is claimed by the other too."""
        shared: set[str] = set()
        is_grave = False
        for other in others:
            if both := task.claims & other.claims:
                shared |= both
                is_grave |= 2 * len(both) > min(len(task.claims), len(other.claims))
        if not shared:
            return "free"
        return "no" if is_grave or 2 * len(shared) > len(task.claims) else "partly"

    # -- what happens

    def add(self, tasks: Iterable[ModelTask]) -> None:
        self.tasks |= {task.task_id: task for task in tasks}
        self.settle()

    def claim(self, task_id: str, holder: str) -> None:
        task = self.tasks[task_id]
        task.state, task.holder, task.error_code, task.due_s = "running", holder, None, 0.0
        task.attempts, task.token, task.has_started = task.attempts + 1, task.token + 1, False

    def succeed(self, task_id: str, merge_id: str | None) -> None:
        task = self.tasks[task_id]
        if merge_id is not None and task.asked is None:
            task.merges.append((merge_id, OPEN_MERGE))
        if task.asked is None and merge_id is None:
            task.merges = []  # what an earlier attempt made does not count where this one had nothing to merge
        self._close(task, "completed", None)

    def fail(self, task_id: str, code: str, now_s: float, *, can_retry: bool) -> None:
        task = self.tasks[task_id]
        retries = self._retries(task, 0 if code == "command_failed" else 3)
        again = can_retry and task.attempts <= retries
        state = "pending" if again else "dead" if can_retry else "failed"
        self._close(task, state, code, now_s + self.rules.backoff(task.attempts, task.task_id))

    def fault(self, task_id: str, code: str, now_s: float) -> None:
        """The machine failed: not counted, and without end where the worker had not even started."""
        task = self.tasks[task_id]
        if task.asked is not None:
            self._close(task, "cancelled", None)
            return
        if task.has_started or code == "worker_lost":
            task.crashes += 1
            state = "dead" if task.crashes > self.rules.max_crashes else "pending"
            times = task.crashes
        else:
            task.faults += 1
            state, times = "pending", task.faults
        task.attempts -= state == "pending"
        self._move(task, state, code, now_s + self.rules.backoff(times, task.task_id))

    def interrupt(self, task_id: str, code: str) -> None:
        """Corral itself cut it short, and it may start again at once."""
        task = self.tasks[task_id]
        if task.asked is not None:
            self._close(task, "cancelled", None)
            return
        task.attempts -= 1
        self._move(task, "pending", None, 0.0)

    def daemon_died(self, now_s: float) -> None:
        for task in self.tasks.values():
            if task.state != "running" or task.is_offered:
                continue
            if not task.has_started:
                self.interrupt(task.task_id, "interrupted")
                continue
            task.crashes += 1
            task.attempts -= 1
            if task.asked is not None:
                self._end_as_asked(task)
            elif task.crashes > self.rules.max_crashes:
                self._move(task, "dead", "daemon_died", 0.0)
            else:
                again_s = self.rules.backoff(task.crashes, task.task_id) if task.crashes > 1 else 0.0
                self._move(task, "pending", "daemon_died", now_s + again_s)
        self.settle()

    def session_left(self, holder: str) -> None:
        for task in self.tasks.values():
            if task.state == "running" and task.is_offered and task.holder == holder:
                gone = task.attempts > self._retries(task, 3)
                self._move(task, "dead" if gone else "pending", "holder_gone" if gone else None, 0.0)
        self.settle()

    def cancel(self, task_id: str, how: str) -> bool:
        """Whether it is accepted; ``how`` is ``plain`` or ``convention``."""
        task = self.tasks[task_id]
        if task.state == "running" and not task.is_offered:
            if how == "convention" or task.asked is None:
                task.asked = how
            return True
        revives = task.state == "failed" and task.error_code == "dependency_failed"
        if task.state in ("waiting", "pending", "running") or (how == "convention" and revives):
            task.asked = how
            self._end_as_asked(task)
            self.settle()
            return True
        return how == "convention" and task.error_code == BY_CONVENTION

    def retry(self, task_id: str) -> bool:
        """Whether it is accepted."""
        task = self.tasks[task_id]
        if task.state not in LOST and not (
            task.state == "completed" and self.merge_of(task) in ("conflict", "cancelled")
        ):
            return False
        task.state, task.error_code, task.culprit, task.asked, task.due_s = "waiting", None, None, None, 0.0
        task.attempts, task.faults, task.crashes = 0, 0, min(task.crashes, 1)
        self.settle()
        return True

    def merge_ended(self, merge_id: str, state: str) -> None:
        for task in self.tasks.values():
            task.merges = [(merge, state if merge == merge_id else was) for merge, was in task.merges]
        owners = {task.task_id for task in self.tasks.values() if merge_id in dict(task.merges)}
        for task in self.tasks.values():  # one that could begin on it does not any more
            if self.rules.unblock_on == "completed" and task.state == "pending" and owners & set(task.parents):
                task.state = "waiting"
        self.settle()

    # -- what follows from it

    def settle(self) -> None:
        """Until nothing changes: what waits, or failed because of a parent, is what its parents make of it."""
        changed = True
        while changed:
            changed = False
            for task in self.tasks.values():
                if task.state != "waiting" and task.error_code != "dependency_failed":
                    continue
                before = task.state, task.culprit
                worth = [(self.worth(self.tasks[parent]), parent) for parent in self._oldest_first(task.parents)]
                lost = [parent for what, parent in worth if what == "lost" and not task.ignores_failure]
                if lost:
                    task.state, task.error_code, task.culprit = "failed", "dependency_failed", lost[0]
                else:
                    is_open = any(what == "open" for what, _ in worth)
                    task.state, task.error_code, task.culprit = "waiting" if is_open else "pending", None, None
                changed = changed or before != (task.state, task.culprit)

    def _oldest_first(self, ids: list[str]) -> list[str]:
        return sorted(ids, key=lambda task_id: self.tasks[task_id].seq)

    def worth(self, task: ModelTask) -> str:
        if task.state in LOST:
            return "lost"
        if task.state != "completed":
            return "open"
        merge = self.merge_of(task)
        if merge in (None, "landed") or (merge == OPEN_MERGE and self.rules.unblock_on == "completed"):
            return "met"
        return "open" if merge == OPEN_MERGE else "lost"

    def merge_of(self, task: ModelTask) -> str | None:
        """The state of the request that counts: an open one, else the newest."""
        states = [state for _, state in task.merges]
        return OPEN_MERGE if OPEN_MERGE in states else states[-1] if states else None

    def _retries(self, task: ModelTask, unless_chosen: int) -> int:
        chosen = (task.retries, self.rules.max_retries)
        return next((number for number in chosen if number is not None), unless_chosen)

    def _close(self, task: ModelTask, state: str, code: str | None, due_s: float = 0.0) -> None:
        """An end that the task itself came to: it clears it of every suspicion."""
        task.crashes = task.faults = 0
        if task.asked is not None:
            self._end_as_asked(task)
        else:
            self._move(task, state, code, due_s)
        self.settle()

    def _end_as_asked(self, task: ModelTask) -> None:
        convention = task.asked == "convention"
        self._move(task, "failed" if convention else "cancelled", BY_CONVENTION if convention else None, 0.0)

    def _move(self, task: ModelTask, state: str, code: str | None, due_s: float) -> None:
        task.state, task.error_code, task.culprit, task.holder = state, code, None, None
        task.due_s = due_s if state == "pending" else 0.0
        self.settle()
