"""The life of one attempt after it was claimed: every transition checks the fencing token and leaves an event."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING
from zlib import crc32

from sqlalchemy import Connection

from corral.config.sections.work import Tasks as TaskRules
from corral.core.errors import LeaseLost
from corral.core.events import TASK_SETBACKS, Event, EventKind
from corral.core.instants import after, iso
from corral.core.payload import Payload
from corral.core.states import TERMINAL_TASKS, AttemptOutcome, TaskStatus
from corral.runners.blame import CONVERSATION_LOST, DAEMON_DIED, LIMIT_REACHED, WORKER_LOST
from corral.store import events
from corral.store.rows import Columns
from corral.store.rows.loops import IterationRow
from corral.store.rows.tasks import TaskRow
from corral.work.merges.store import merges
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.swarm import performance
from corral.work.tasks import combining, stacking
from corral.work.tasks.dependencies import reconsider, settle
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import outcomes, tasks

if TYPE_CHECKING:
    from corral.core.event_payloads import TaskSetback


@dataclass(frozen=True)
class CollectedWork:
    """The commits of an attempt that should land; a ref of the merge request to be holds ``head_sha`` already."""

    merge_id: str
    branch: str
    target: str
    base_sha: str
    head_sha: str


@dataclass(frozen=True)
class Ending:
    """How an attempt ended.

    Attributes:
        success: Whether the work was done; then ``to_land`` has its changes, None if nothing.
        error_code: Why not, one word; ``interrupted`` if it was Corral that stopped it.
        retryable: Whether another attempt could end otherwise.
        is_fault: Whether it says nothing about the task, but of the machine: then it is not counted, and tried again.
        remedy: The action that a person can take against a fault.
        usage: The usage of this attempt; empty if that is not known.
        iteration: The iteration of a loop that it completed.
        goes_on: Whether another iteration follows: the task waits for its next turn.
    """

    success: bool
    error_code: str | None = None
    error_message: str | None = None
    retryable: bool = True
    result: Payload | None = None
    usage: Payload = field(default_factory=dict)
    to_land: CollectedWork | None = None
    is_fault: bool = False
    remedy: str | None = None
    iteration: IterationRow | None = None
    goes_on: bool = False


COMMAND_FAILED = "command_failed"
"""The ``error_code`` of a command that ended with an exit code of its own."""

CANCELLED_BY_ORCHESTRATOR = "cancelled_by_orchestrator"
"""The ``error_code`` of a task that was cancelled by the task document's convention: it ends ``failed``."""

_CLEARED: Columns = {"crashes": 0, "faults": 0}
"""An end that the task itself came to clears it of every suspicion."""

_NO_PROCESS: Columns = {"pid": None, "pid_started": None}
"""Nothing of an attempt's worker is alive."""

_NO_ERROR: Columns = {"error_code": None, "error_message": None, "not_before_at": None}

INTERRUPTED = "interrupted"
"""The ``error_code`` of an attempt that ended with the daemon: it is not counted."""

HAS_TO_WAIT = "has_to_wait"
"""The ``error_code`` of an attempt that could not begin on what its task waited for: it is not counted, and the task waits."""

CUT_SHORT = (INTERRUPTED, LIMIT_REACHED)
"""The error codes of attempts that Corral itself cut short: they are not counted, and run again when they can."""


def held(conn: Connection, task_id: str, token: int) -> TaskRow:
    """The running task that this token is for.

    Raises:
        LeaseLost: It is another attempt's by now, or not running; ``details`` say whose.
    """
    row = tasks.get(conn, task_id)
    if row is None or row["status"] != TaskStatus.RUNNING or row["fencing_token"] != token:
        raise _lost(task_id, token, row)
    return row


def change(conn: Connection, task_id: str, token: int, values: Columns, attempt: Columns) -> TaskRow:
    """Set columns of a running task and of this attempt at it.

    Raises:
        LeaseLost: The task is no longer this attempt's.
    """
    row = tasks.transition(conn, task_id, (TaskStatus.RUNNING,), values, token=token, attempt=attempt)
    if row is None:
        raise _lost(task_id, token, tasks.get(conn, task_id))
    return row


def started(conn: Connection, task_id: str, token: int, now: datetime, *, pid: int, pid_started: float) -> TaskRow:
    """Record that the worker's process runs, and forget the faults that kept it from starting.

    Raises:
        LeaseLost: The task is no longer this attempt's.
    """
    process = {"pid": pid, "pid_started": pid_started, "started_at": iso(now)}
    row = change(conn, task_id, token, {"faults": 0}, process)
    events.record(conn, now, EventKind.TASK_STARTED({"pid": pid}), task_id=task_id, session_id=row["session_id"])
    return row


def end(
    conn: Connection,
    task_id: str,
    token: int,
    ending: Ending,
    now: datetime,
    rules: TaskRules,
    *,
    before: TaskRow | None = None,
) -> TaskRow:
    """Close an attempt: one of completed, cancelled, interrupted, pending again, failed, dead.

    A request to cancel counts first: a task with a ``cancel_reason`` ends ``cancelled`` however the attempt went. The
    merge request is queued in the same transaction, and dependents are told.

    Args:
        before: The running task, where this transaction has read it already.

    Returns:
        The row as it is now; its ``status`` says what became of it.

    Raises:
        LeaseLost: The task is no longer this attempt's; nothing was changed.
    """
    if before is None:
        before = held(conn, task_id, token)
    if ending.success and ending.to_land is not None and combining.is_held_back(conn, before):
        work = {combining.CONTRIBUTION: asdict(ending.to_land)}
        ending = replace(ending, result={**(ending.result or {}), **work}, to_land=None)
    values, event = _outcome(before, ending, now, rules)
    if values["status"] in TERMINAL_TASKS:
        values["completed_at"] = iso(now)
    attempt = ended(_outcome_of(before, ending), now, ending.error_code, ending.error_message)
    if ending.usage:
        attempt["usage"] = ending.usage
    if ending.to_land is not None:
        attempt["head_sha"] = ending.to_land.head_sha
    row = change(conn, task_id, token, values, {**attempt, **_NO_PROCESS})
    status = row["status"]
    events.record(conn, now, event, task_id=task_id, session_id=row["session_id"])
    if ending.to_land is not None and before["cancel_reason"] is None:
        _queue(conn, row, ending.to_land, now)
        if not ending.success:  # the best of a loop: the queue has it, and the end needs nobody any more
            outcomes.dismiss_task(conn, task_id, iso(now))
    elif status == TaskStatus.COMPLETED and row["runner"] is not None and token > 1:
        _give_up_earlier(conn, row, now)
    if status == TaskStatus.WAITING:
        reconsider(conn, settle(conn, [row], now, unblock_on=rules.unblock_on), now, unblock_on=rules.unblock_on)
    if status in TERMINAL_TASKS:
        reconsider(conn, [task_id], now, unblock_on=rules.unblock_on)
    if attempt["outcome"] == AttemptOutcome.FAILED:
        performance.note_failure(conn, row, token, now)
    return row


def interrupt(conn: Connection, row: TaskRow, reason: str, now: datetime) -> TaskRow | None:
    """Mark a task that Corral stopped as ``interrupted``: the attempt is not counted. None if it was not running."""
    return _cut_short(conn, row, INTERRUPTED, reason, now, {})


def crash(conn: Connection, row: TaskRow, now: datetime, rules: TaskRules) -> TaskRow | None:
    """Mark a task whose worker died with the daemon as ``interrupted``: not counted, and suspected from the second time in a row
    on (see :func:`resume`).

    A task that had no worktree yet has done nothing, and is not suspected; with a worktree, its worker may have run before its
    process was recorded. None if it was not running.
    """
    if row["pid"] is None and row["worktree_id"] is None:
        return interrupt(conn, row, "The daemon died before its worker had started.", now)
    crashes = row["crashes"] + 1
    verdict = _verdict(row, rules, crashes, rules.max_crashes)
    delay_s = verdict.delay_s if crashes >= tasks.SUSPECTED else 0.0
    values = {"crashes": crashes, "not_before_at": after(now, delay_s)}
    return _cut_short(conn, row, DAEMON_DIED, _crash_message(crashes), now, values)


def _crash_message(crashes: int) -> str:
    if crashes == 1:
        return "The daemon died while it ran."
    return (
        f"The daemon died {crashes} times in a row while it ran, so no other task under suspicion runs beside it. "
        "Its log may show what it does to the daemon."
    )


def _cut_short(conn: Connection, row: TaskRow, code: str, reason: str, now: datetime, more: Columns) -> TaskRow | None:
    values = {
        "status": TaskStatus.INTERRUPTED,
        "attempts": max(0, row["attempts"] - 1),
        "error_code": row["error_code"] or code,  # keeps the code of a requested cancellation
        "error_message": reason,
        **more,
    }
    attempt = ended(AttemptOutcome.INTERRUPTED, now, code, reason)
    moved = tasks.transition(
        conn, row["task_id"], (TaskStatus.RUNNING,), values, token=row["fencing_token"], attempt=attempt
    )
    if moved is not None:
        why: TaskSetback = {"error_code": code, "error_message": reason, "crashes": moved["crashes"]}
        event = EventKind.TASK_INTERRUPTED(why)
        events.record(conn, now, event, task_id=row["task_id"], session_id=row["session_id"])
    return moved


def resume(conn: Connection, task_id: str, now: datetime, rules: TaskRules) -> TaskRow | None:
    """Let an interrupted task start again, once nothing of its worker is alive.

    At once if Corral itself interrupted it, or the daemon died for the first time; then after its backoff; never (``dead``) if
    that happened more than ``tasks.max_crashes`` times in a row, or (``failed``) if ``tasks.on_interrupted`` says so. One whose
    cancellation was asked for meanwhile is cancelled.
    """
    row = tasks.get(conn, task_id)
    if row is None or row["status"] != TaskStatus.INTERRUPTED:
        return None
    if row["cancel_reason"] is not None:
        convention = row["error_code"] == CANCELLED_BY_ORCHESTRATOR
        return call_off(conn, row, now, rules, reason=row["cancel_reason"], convention=convention)
    died = row["error_code"] == DAEMON_DIED
    is_over = {"completed_at": iso(now), "not_before_at": None}
    why: TaskSetback = {"error_code": row["error_code"], "error_message": row["error_message"]}
    if died and row["crashes"] > rules.max_crashes:
        end = {"status": TaskStatus.DEAD, **is_over}
        event = EventKind.TASK_DEAD(why)
    elif rules.on_interrupted == "fail" and row["error_code"] != LIMIT_REACHED:
        end = {"status": TaskStatus.FAILED, **is_over}
        event = EventKind.TASK_FAILED(why)
    else:
        end = {"status": TaskStatus.PENDING} if died else {"status": TaskStatus.PENDING, **_NO_ERROR}
        event = EventKind.TASK_RESUMED({})
    moved = tasks.transition(
        conn, task_id, (TaskStatus.INTERRUPTED,), end, token=row["fencing_token"], attempt=_NO_PROCESS
    )
    if moved is not None:
        events.record(conn, now, event, task_id=task_id, session_id=row["session_id"])
        if moved["status"] in TERMINAL_TASKS:
            reconsider(conn, [task_id], now, unblock_on=rules.unblock_on)
    return moved


def call_off(
    conn: Connection, row: TaskRow, now: datetime, rules: TaskRules, *, reason: str, convention: bool
) -> TaskRow | None:
    """End a task that no worker executes, as cancelled. None if its state has changed since.

    Args:
        convention: It ends ``failed`` with :data:`CANCELLED_BY_ORCHESTRATOR`, not ``cancelled``.
    """
    values = _called_off(reason, None, convention=convention)
    gone = {**values, "not_before_at": None, "cancel_reason": reason, "completed_at": iso(now)}
    is_running = row["status"] == TaskStatus.RUNNING
    attempt = ended(AttemptOutcome.CANCELLED, now, None, reason) if is_running else {}
    moved = tasks.transition(
        conn,
        row["task_id"],
        (row["status"],),
        gone,
        token=row["fencing_token"],
        attempt={**attempt, **_NO_PROCESS},
    )
    if moved is not None:
        event = TASK_SETBACKS[moved["status"]]({"reason": reason, "error_code": values["error_code"]})
        events.record(conn, now, event, task_id=row["task_id"], session_id=row["session_id"])
        reconsider(conn, [row["task_id"]], now, unblock_on=rules.unblock_on)
    return moved


def ended(outcome: AttemptOutcome, now: datetime, error_code: str | None, error_message: str | None) -> Columns:
    """The columns of an attempt that ends now."""
    why: Columns = {"error_code": error_code, "error_message": error_message}
    return {"outcome": outcome, "ended_at": iso(now), "lease_expires_at": None, **why}


def _outcome_of(before: TaskRow, ending: Ending) -> AttemptOutcome:
    if before["cancel_reason"] is not None:
        return AttemptOutcome.CANCELLED
    if ending.success or ending.goes_on:
        return AttemptOutcome.COMPLETED
    if ending.error_code in (*CUT_SHORT, HAS_TO_WAIT):
        return AttemptOutcome.INTERRUPTED
    return AttemptOutcome.FAULTED if ending.is_fault else AttemptOutcome.FAILED


def _called_off(reason: str, result: Payload | None, *, convention: bool) -> Columns:
    if not convention:
        return {"status": TaskStatus.CANCELLED, "error_code": None, "error_message": reason, "result": result}
    return {
        "status": TaskStatus.FAILED,
        "error_code": CANCELLED_BY_ORCHESTRATOR,
        "error_message": reason,
        "result": {**(result or {}), "error_code": CANCELLED_BY_ORCHESTRATOR, "reason": reason},
    }


def _outcome(before: TaskRow, ending: Ending, now: datetime, rules: TaskRules) -> tuple[Columns, Event]:
    """The columns to set, and the event."""
    number = before["attempts"]
    why: Columns = {"error_code": ending.error_code, "error_message": ending.error_message}
    setback: TaskSetback = {"attempt": number, "error_code": ending.error_code, "error_message": ending.error_message}
    if before["cancel_reason"] is not None:
        convention = before["error_code"] == CANCELLED_BY_ORCHESTRATOR
        values = {**_called_off(before["cancel_reason"], ending.result, convention=convention), **_CLEARED}
        setback = {"attempt": number, "reason": before["cancel_reason"], "error_code": values["error_code"]}
        return values, TASK_SETBACKS[values["status"]](setback)
    if ending.success:
        head = ending.to_land.head_sha if ending.to_land is not None else None
        values = {"error_code": None, "error_message": None, "result": ending.result, **_CLEARED}
        values["status"] = TaskStatus.COMPLETED
        return values, EventKind.TASK_COMPLETED({"attempt": number, "head_sha": head})
    if ending.goes_on and ending.iteration is not None:
        waits: Columns = {"status": TaskStatus.PENDING, "attempts": 0, "result": ending.result, **_NO_ERROR, **_CLEARED}
        newest = ending.iteration
        return waits, EventKind.TASK_ITERATED({"iteration": newest["iteration"], "verdict": newest["verdict"]})
    if ending.error_code == HAS_TO_WAIT:
        return {"status": TaskStatus.WAITING, "attempts": max(0, number - 1), **_NO_ERROR}, EventKind.TASK_BLOCKED({})
    if ending.error_code in CUT_SHORT:
        values = {"status": TaskStatus.INTERRUPTED, "attempts": max(0, number - 1), **why}
        return values, EventKind.TASK_INTERRUPTED(setback)
    if ending.error_code == CONVERSATION_LOST:  # the next attempt begins a new conversation
        again: Columns = {"status": TaskStatus.PENDING, "attempts": max(0, number - 1), **_NO_ERROR, **_CLEARED}
        return again, TASK_SETBACKS[TaskStatus.PENDING]({**setback, "is_counted": False})
    if ending.is_fault:
        return _fault(before, ending, setback, now, rules)
    most = retries_left(before, ending.error_code)
    verdict = _verdict(before, rules, before["attempts"], most, retryable=ending.retryable)
    due: Columns = {"not_before_at": after(now, verdict.delay_s)} if verdict.status == TaskStatus.PENDING else {}
    values = {"status": verdict.status, "result": ending.result, **why, **_CLEARED, **due}
    return values, TASK_SETBACKS[verdict.status]({**setback, "delay_s": verdict.delay_s})


def _verdict(task: TaskRow, rules: TaskRules, count: int, most: float, *, retryable: bool = True) -> Verdict:
    """What :func:`judge` says by the settings, and by the task's own wait."""
    waits = {"initial_s": rules.retry_initial_s, "max_s": rules.retry_max_s}
    return judge(count, most, retryable=retryable, seed=task["task_id"], **waits)


def retries_left(task: TaskRow, error_code: str | None) -> int:
    """How many tries may follow the first after this failure.

    A plain command's own exit code says the same again, so it is tried again only where somebody chose a number of retries.
    """
    is_own_exit_code = error_code == COMMAND_FAILED and task["command"] is not None
    return 0 if is_own_exit_code and not task["retries_chosen"] else int(task["max_retries"])


def _fault(
    before: TaskRow, ending: Ending, setback: TaskSetback, now: datetime, rules: TaskRules
) -> tuple[Columns, Event]:
    """The columns and the event after a fault of the machine. If a worker had run, its task may have caused the fault."""
    if before["pid"] is not None or ending.error_code == WORKER_LOST:
        count = {"crashes": before["crashes"] + 1}
        setback = {**setback, "crashes": count["crashes"]}
        verdict = _verdict(before, rules, count["crashes"], rules.max_crashes)
    else:
        count = {"faults": before["faults"] + 1}
        setback = {**setback, "faults": count["faults"]}
        verdict = _verdict(before, rules, count["faults"], math.inf)
    why: Columns = {"error_code": ending.error_code, "error_message": ending.error_message}
    values = {"status": verdict.status, "result": ending.result, **count, **why}
    if verdict.status == TaskStatus.PENDING:
        values |= {"attempts": max(0, before["attempts"] - 1), "not_before_at": after(now, verdict.delay_s)}
    return values, TASK_SETBACKS[verdict.status]({**setback, "is_counted": False, "delay_s": verdict.delay_s})


def _queue(conn: Connection, row: TaskRow, collected: CollectedWork, now: datetime) -> None:
    merge_id = merges.submit(
        conn,
        merge_id=collected.merge_id,
        task_id=row["task_id"],
        session_id=row["session_id"],
        title=row["title"],
        priority=row["priority"],
        branch=collected.branch,
        target=collected.target,
        base_sha=collected.base_sha,
        head_sha=collected.head_sha,
        now=now,
    )
    stacking.tell(conn, merges.get(conn, merge_id), now)


def _give_up_earlier(conn: Connection, row: TaskRow, now: datetime) -> None:
    """This attempt had nothing to merge: requests of earlier ones that came back say nothing about the task any more."""
    reason = f"Attempt {row['fencing_token']} of its task had nothing to merge."
    attempts = {attempt["number"]: attempt for attempt in attempt_rows.of_task(conn, row["task_id"])}
    claimed_at = attempts[row["fencing_token"]]["claimed_at"]
    for merge_id in merge_tasks.give_up(conn, row["task_id"], claimed_at, iso(now), reason):
        event = EventKind.MERGE_CANCELLED({"reason": reason, "landed_sha": None})
        events.record(conn, now, event, task_id=row["task_id"], merge_id=merge_id)


def _lost(task_id: str, token: int, row: TaskRow | None) -> LeaseLost:
    owner = row and {"status": row["status"], "session_id": row["session_id"], "token": row["fencing_token"]}
    return LeaseLost(f"Attempt {token} no longer owns task {task_id}.", details={"task_id": task_id, "owner": owner})


# -- When an attempt that ended badly is followed by another, and when the task is given up. Pure.
#
# Three counts, for three kinds of bad ends (`corral.runners.blame`): ``attempts`` for what the task did wrong;
# ``faults`` for starts that the machine prevented, which are tried again for ever; ``crashes`` for ends by violence,
# of the daemon or of the worker while the task ran, where the task may be the cause: bounded by
# ``tasks.max_crashes``.

JITTER = 0.1
"""The largest share of a wait by which it is changed, so that tasks that failed together are not all tried at once."""


@dataclass(frozen=True)
class Verdict:
    """Retry or dead: the next state of a task whose attempt failed.

    Attributes:
        status: ``pending`` (again), ``failed`` (never retryable) or ``dead`` (out of retries).
        delay_s: Seconds until it may start again; 0 unless pending.
    """

    status: TaskStatus
    delay_s: float = 0.0


def backoff_s(attempts: int, *, initial_s: float, max_s: float, seed: str = "") -> float:
    """Seconds to wait after the ``attempts``-th attempt (from 1): doubles each time, bounded.

    Args:
        seed: The task, by which the wait is up to a tenth longer, or shorter where it would be too long; empty: as it is.
    """
    # 2**64 times anything is beyond every bound, and a larger exponent would overflow a float
    pause = float(min(max_s, initial_s * 2 ** min(attempts - 1, 64)))
    change = JITTER * pause * crc32(f"{seed}/{attempts}".encode()) / 2**32 if seed else 0.0
    return round(pause + change if pause + change <= max_s else pause - change, 3) if change else pause


def judge(
    count: int, most: float, *, retryable: bool = True, initial_s: float, max_s: float, seed: str = ""
) -> Verdict:
    """Decide about an attempt that ended badly.

    The first death says little, since others ran then too. From the second one on the task runs beside no other suspect.

    Args:
        count: How many ended so, this one included: attempts that were claimed, starts in a row that the machine prevented, or
            deaths in a row of the daemon or of the worker.
        most: How many of them may be followed by another attempt; infinite: all.
        retryable: Whether another try could end otherwise.
        initial_s: The first wait, seconds.
        max_s: The longest wait, seconds.
        seed: As in :func:`backoff_s`.
    """
    if not retryable:
        return Verdict(TaskStatus.FAILED)
    if count > most:
        return Verdict(TaskStatus.DEAD)
    return Verdict(TaskStatus.PENDING, backoff_s(count, initial_s=initial_s, max_s=max_s, seed=seed))
