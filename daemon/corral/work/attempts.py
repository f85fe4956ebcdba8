"""The life of one attempt after it was claimed: every transition checks the fencing token and leaves an event."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Tasks as TaskRules
from corral.errors import LeaseLost
from corral.models.instants import after, iso
from corral.models.states import TERMINAL_TASKS, TaskStatus
from corral.store import events, merges, tasks
from corral.work.dependencies import reconsider
from corral.work.retry import judge

Row = dict[str, Any]


@dataclass(frozen=True)
class Harvest:
    """What an attempt has made that should land; a ref of the merge request to be holds ``head_sha`` already."""

    merge_id: str
    branch: str
    target: str
    base_sha: str
    head_sha: str


@dataclass(frozen=True)
class Ending:
    """How an attempt ended.

    Attributes:
        success: Whether the work was done; then ``harvest`` is what it changed, None if nothing.
        error_code: Why not, one word; ``interrupted`` if it was Corral that stopped it.
        retryable: Whether another attempt could end otherwise.
        usage: What the task used so far, earlier attempts included.
    """

    success: bool
    error_code: str | None = None
    error_message: str | None = None
    retryable: bool = True
    result: Row | None = None
    usage: Row = field(default_factory=dict)
    harvest: Harvest | None = None


CANCELLED_BY_ORCHESTRATOR = "cancelled_by_orchestrator"
"""The ``error_code`` of a task that was cancelled by the task document's convention: it ends ``failed``."""

INTERRUPTED = "interrupted"
"""The ``error_code`` of an attempt that Corral itself cut short: it is not counted."""


def held(conn: Connection, task_id: str, token: int) -> Row:
    """The running task that this token is for.

    Raises:
        LeaseLost: It is another attempt's by now, or not running; ``details`` say whose.
    """
    row = tasks.get(conn, task_id)
    if row is None or row["status"] != TaskStatus.RUNNING or row["fencing_token"] != token:
        raise _lost(task_id, token, row)
    return row


def change(conn: Connection, task_id: str, token: int, values: Row) -> Row:
    """Set columns of a running task (progress, usage, pid, worktree, …).

    Raises:
        LeaseLost: The task is no longer this attempt's.
    """
    row = tasks.move(conn, task_id, (TaskStatus.RUNNING,), values, token=token)
    if row is None:
        raise _lost(task_id, token, tasks.get(conn, task_id))
    return row


def started(conn: Connection, task_id: str, token: int, now: datetime, *, pid: int, pid_started: float) -> Row:
    """The worker's process runs.

    Raises:
        LeaseLost: The task is no longer this attempt's.
    """
    row = change(conn, task_id, token, {"pid": pid, "pid_started": pid_started, "started_at": iso(now)})
    events.record(conn, now, "task.started", task_id=task_id, session_id=row["session_id"], data={"pid": pid})
    return row


def end(conn: Connection, task_id: str, token: int, ending: Ending, now: datetime, rules: TaskRules) -> Row:
    """Close an attempt: one of completed, cancelled, interrupted, pending again, failed, dead.

    What was asked for counts first: a task with a ``cancel_reason`` ends ``cancelled`` however the attempt went. The
    merge request is queued in the same transaction, and dependents are told.

    Returns:
        The row as it is now; its ``status`` says what became of it.

    Raises:
        LeaseLost: The task is no longer this attempt's; nothing was changed.
    """
    before = held(conn, task_id, token)
    values, note = _outcome(before, ending, now, rules)
    values |= {"lease_expires_at": None, "pid": None, "pid_started": None, "usage": ending.usage or before["usage"]}
    if values["status"] in TERMINAL_TASKS:
        values["completed_at"] = iso(now)
    row = change(conn, task_id, token, values)
    status = row["status"]
    kind = "task.retried" if status == TaskStatus.PENDING else f"task.{status}"
    events.record(
        conn, now, kind, task_id=task_id, session_id=row["session_id"], data={"attempt": before["attempts"], **note}
    )
    if status == TaskStatus.COMPLETED and ending.harvest is not None:
        _queue(conn, row, ending.harvest, now)
    if status in TERMINAL_TASKS:
        reconsider(conn, [task_id], now, unblock_on=rules.unblock_on)
    return row


def interrupt(conn: Connection, row: Row, reason: str, now: datetime) -> Row | None:
    """A running task whose daemon is gone: ``interrupted``, the attempt not counted. None if it was not running."""
    values = {
        "status": TaskStatus.INTERRUPTED,
        "attempts": max(0, row["attempts"] - 1),
        "lease_expires_at": None,
        "error_code": row["error_code"]
        or INTERRUPTED,  # how a cancellation that was asked for shall end is not forgotten
        "error_message": reason,
    }
    moved = tasks.move(conn, row["task_id"], (TaskStatus.RUNNING,), values, token=row["fencing_token"])
    if moved is not None:
        data = {"error_message": reason}
        events.record(conn, now, "task.interrupted", task_id=row["task_id"], session_id=row["session_id"], data=data)
    return moved


def resume(conn: Connection, task_id: str, now: datetime, rules: TaskRules) -> Row | None:
    """An interrupted task may start again at once; one whose cancellation was asked for meanwhile is cancelled."""
    freed = {"pid": None, "pid_started": None, "not_before_at": None}
    row = tasks.get(conn, task_id)
    if row is not None and row["status"] == TaskStatus.INTERRUPTED and row["cancel_reason"] is not None:
        convention = row["error_code"] == CANCELLED_BY_ORCHESTRATOR
        return call_off(conn, row, now, rules, reason=row["cancel_reason"], convention=convention)
    again: Row = {"status": TaskStatus.PENDING, "error_code": None, "error_message": None, **freed}
    moved = tasks.move(conn, task_id, (TaskStatus.INTERRUPTED,), again)
    if moved is not None:
        events.record(conn, now, "task.resumed", task_id=task_id)
    return moved


def call_off(
    conn: Connection, row: Row, now: datetime, rules: TaskRules, *, reason: str, convention: bool
) -> Row | None:
    """End a task that no worker of ours is at work on, as cancelled. None if its state is another by now.

    Args:
        convention: It ends ``failed`` with :data:`CANCELLED_BY_ORCHESTRATOR`, not ``cancelled``.
    """
    values = _called_off(reason, None, convention=convention)
    freed = dict.fromkeys(("lease_expires_at", "pid", "pid_started", "not_before_at"))
    gone = {**values, **freed, "cancel_reason": reason, "completed_at": iso(now)}
    moved = tasks.move(conn, row["task_id"], (row["status"],), gone, token=row["fencing_token"])
    if moved is not None:
        data = {"reason": reason, "error_code": values["error_code"]}
        kind = f"task.{moved['status']}"
        events.record(conn, now, kind, task_id=row["task_id"], session_id=row["session_id"], data=data)
        reconsider(conn, [row["task_id"]], now, unblock_on=rules.unblock_on)
    return moved


def _called_off(reason: str, result: Row | None, *, convention: bool) -> Row:
    if not convention:
        return {"status": TaskStatus.CANCELLED, "error_code": None, "error_message": reason, "result": result}
    told = {**(result or {}), "error_code": CANCELLED_BY_ORCHESTRATOR, "reason": reason}
    return {
        "status": TaskStatus.FAILED,
        "error_code": CANCELLED_BY_ORCHESTRATOR,
        "error_message": reason,
        "result": told,
    }


def _outcome(before: Row, ending: Ending, now: datetime, rules: TaskRules) -> tuple[Row, Row]:
    """The columns to set, and what the event tells."""
    why = {"error_code": ending.error_code, "error_message": ending.error_message}
    if before["cancel_reason"] is not None:
        convention = before["error_code"] == CANCELLED_BY_ORCHESTRATOR
        values = _called_off(before["cancel_reason"], ending.result, convention=convention)
        return values, {"reason": before["cancel_reason"], "error_code": values["error_code"]}
    if ending.success:
        head = ending.harvest.head_sha if ending.harvest is not None else None
        done: Row = {"error_code": None, "error_message": None, "result": ending.result, "head_sha": head}
        return {"status": TaskStatus.COMPLETED, **done}, {"head_sha": head}
    if ending.error_code == INTERRUPTED:
        return {"status": TaskStatus.INTERRUPTED, "attempts": max(0, before["attempts"] - 1), **why}, why
    verdict = judge(
        before["attempts"],
        before["max_retries"],
        retryable=ending.retryable,
        initial_s=rules.backoff_initial_s,
        max_s=rules.backoff_max_s,
    )
    values = {"status": verdict.status, "result": ending.result, **why}
    if verdict.status == TaskStatus.PENDING:
        values["not_before_at"] = after(now, verdict.delay_s)
    return values, {**why, "delay_s": verdict.delay_s}


def _queue(conn: Connection, row: Row, harvest: Harvest, now: datetime) -> None:
    merges.submit(
        conn,
        merge_id=harvest.merge_id,
        task_id=row["task_id"],
        session_id=row["session_id"],
        title=row["title"],
        priority=row["priority"],
        branch=harvest.branch,
        target=harvest.target,
        base_sha=harvest.base_sha,
        head_sha=harvest.head_sha,
        now=now,
    )


def _lost(task_id: str, token: int, row: Row | None) -> LeaseLost:
    owner = row and {"status": row["status"], "session_id": row["session_id"], "token": row["fencing_token"]}
    return LeaseLost(f"Attempt {token} no longer owns task {task_id}.", details={"task_id": task_id, "owner": owner})
