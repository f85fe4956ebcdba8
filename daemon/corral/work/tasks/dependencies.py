"""Dependencies: the effect of a task's end on the tasks that wait for it.

A dependent is ``waiting`` while a parent is open, ``pending`` once all have succeeded, and ``failed`` with
``dependency_failed`` as soon as one cannot succeed; one that is made of steps, and waits for them, does nothing itself
(:mod:`corral.work.workflows`). :func:`reconsider` derives that from the parents' present
states, whichever way they went, so that a retried parent revives what its failure had failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.outcomes import of_task
from corral.core.states import OPEN_MERGES, TaskStatus
from corral.store import events
from corral.store.rows import Columns
from corral.store.rows.tasks import ChildTask, ParentTask
from corral.work.merges.wire import is_parked
from corral.work.tasks.outlook import Outlook, outlook
from corral.work.tasks.store import dependencies, tasks
from corral.work.workflows import standing as workflows

_NOT_LOST = {
    TaskStatus.PENDING: EventKind.TASK_UNBLOCKED({}),
    TaskStatus.WAITING: EventKind.TASK_REVIVED({}),
    TaskStatus.COMPLETED: EventKind.TASK_COMPLETED({"attempt": 0, "head_sha": None}),
}
"""The event that is recorded when parents change a task's state, unless it failed."""


def standing(
    parents: Sequence[ParentTask], *, ignore_failure: bool, unblock_on: str
) -> tuple[TaskStatus, ParentTask | None]:
    """The state that a task's parents put it in, and the parent that cannot succeed if that is why.

    Args:
        parents: Of one task.
        ignore_failure: Whether a parent that cannot succeed is as good as one that did.
        unblock_on: ``landed`` or ``completed``.
    """
    waits = False
    for parent in parents:
        worth = outlook(parent["status"], parent["merge_state"], unblock_on)
        if worth is Outlook.LOST and not ignore_failure:
            return TaskStatus.FAILED, parent
        waits = waits or worth is Outlook.OPEN or is_parked(parent["merge_state"], parent["merge_reason"])
    waits = waits or clash(parents) != []
    return (TaskStatus.WAITING if waits else TaskStatus.PENDING), None


def clash(parents: Sequence[ParentTask]) -> list[ParentTask]:
    """The parents on whose finished work a task cannot begin, since that does not merge, until one of them lands or changes."""
    clashing = [parent for parent in parents if parent["clashes_sha"] is not None]
    as_it_was = (
        parent["merge_state"] in OPEN_MERGES and parent["merge_head"] == parent["clashes_sha"] for parent in clashing
    )
    return clashing if all(as_it_was) else []


def settle(
    conn: Connection,
    children: Sequence[ChildTask],
    now: datetime,
    *,
    unblock_on: str,
    causes: dict[str, ParentTask] | None = None,
) -> list[str]:
    """Put tasks into the states that their parents imply.

    Args:
        children: Waiting, or failed by a dependency.
        causes: For tasks that failed by a dependency, the task that their failure began with; completed here.

    Returns:
        The ids of those whose failure began, ended or has another reason now: their own dependents are affected.
    """
    parents = dependencies.parent_states(conn, [child["task_id"] for child in children])
    causes = {} if causes is None else causes
    changed = []
    for child in children:
        status, culprit = standing(
            parents.get(child["task_id"], ()),
            ignore_failure=child["ignore_dependency_failure"],
            unblock_on=unblock_on,
        )
        reason = None
        if child["steps_wanted"] is not None:
            status, reason = workflows.standing(parents.get(child["task_id"], ()))
        elif culprit is not None:
            cause = causes[child["task_id"]] = causes.get(culprit["task_id"]) or _first_cause(conn, culprit, unblock_on)
            reason = _reason(culprit, cause)
        if status == TaskStatus.PENDING and child["combine"] is not None:
            status = TaskStatus.WAITING  # for the agents that do it, which wait for the same tasks themselves
        is_ready = status == child["status"] == TaskStatus.PENDING  # and keeps what its last attempt failed of
        if is_ready or (status, reason) == (child["status"], child["error_message"]):
            continue
        moved = _move_child(conn, child, status, reason, now)
        if moved and {TaskStatus.FAILED, TaskStatus.COMPLETED} & {status, child["status"]}:
            changed.append(child["task_id"])
    return changed


def reconsider(conn: Connection, changed: Sequence[str], now: datetime, *, unblock_on: str) -> None:
    """Settle the dependents of tasks that have changed, and theirs in turn."""
    causes: dict[str, ParentTask] = {}
    while changed:
        children = dependencies.unsettled_children(conn, changed)
        changed = settle(conn, children, now, unblock_on=unblock_on, causes=causes)


def hold_back(conn: Connection, lost: Sequence[str], now: datetime, *, unblock_on: str) -> None:
    """Let dependents that have not started wait again, or fail, after the work of these tasks was lost or came back."""
    changed = settle(conn, dependencies.ready_children(conn, lost), now, unblock_on=unblock_on)
    reconsider(conn, changed, now, unblock_on=unblock_on)


def _move_child(conn: Connection, child: ChildTask, status: TaskStatus, reason: str | None, now: datetime) -> bool:
    lost, completed = reason is not None, status == TaskStatus.COMPLETED
    values: Columns = {
        "status": status,
        "completed_at": iso(now) if lost or completed else None,
        "error_code": dependencies.DEPENDENCY_FAILED if lost else None,
        "error_message": reason,
    }
    if completed:
        values["result"] = workflows.result(conn, child["task_id"])
    moved = tasks.transition(conn, child["task_id"], (child["status"],), values)
    if moved is not None and status != child["status"]:
        event = (
            EventKind.TASK_FAILED({"error_code": dependencies.DEPENDENCY_FAILED, "error_message": reason})
            if lost
            else EventKind.TASK_BLOCKED({})
            if child["status"] == TaskStatus.PENDING
            else _NOT_LOST[status]
        )
        events.record(conn, now, event, task_id=child["task_id"])
    return moved is not None


def cause_of(conn: Connection, task_id: str, unblock_on: str) -> ParentTask | None:
    """The task that keeps another one from ever beginning, since it did not succeed itself; None: nothing does."""
    parents = dependencies.parent_states(conn, [task_id]).get(task_id, ())
    _, culprit = standing(parents, ignore_failure=False, unblock_on=unblock_on)
    return _first_cause(conn, culprit, unblock_on) if culprit is not None else None


def _first_cause(conn: Connection, failed: ParentTask, unblock_on: str) -> ParentTask:
    """The task that a failure began with: one that failed by itself, and not because of a dependency."""
    while failed["error_code"] == dependencies.DEPENDENCY_FAILED:
        above = dependencies.parent_states(conn, [failed["task_id"]]).get(failed["task_id"], ())
        _, culprit = standing(above, ignore_failure=False, unblock_on=unblock_on)
        if culprit is None:
            break
        failed = culprit
    return failed


def _reason(parent: ParentTask, cause: ParentTask) -> str:
    came_back = cause["status"] == TaskStatus.COMPLETED
    outcome = of_task(cause["status"], cause["merge_state"], dismissed=False)
    if cause["task_id"] == parent["task_id"]:
        how = f"its merge request ended as {outcome}" if came_back else f"it is {cause['status']}"
    elif came_back:
        how = f"the merge request of {_named(cause)} ended as {outcome}"
    else:
        how = f"{_named(cause)} is {cause['status']}"
    return f"It waits for {_named(parent)}, which cannot succeed: {how}."


def _named(task: ParentTask) -> str:
    return f"{task['task_id']} ({task['title'][:80]})"
