"""Tasks for those who submit them: submit, find, cancel, retry."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection

from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.locks.keys import parse_key
from corral.coordination.sessions.store import sessions
from corral.core.errors import RACED, Conflict, CorralError, IdempotencyKeyConflict, InvalidInput, NotFound
from corral.core.events import EventKind
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.logs import logger
from corral.core.payload import Payload, picked
from corral.core.redaction import redact
from corral.core.states import OPEN_MERGES, RETURNED_MERGES, TaskStatus
from corral.core.tree import blocking_cycle
from corral.store import events
from corral.store.rows import Columns, required
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import TaskRow
from corral.work.agents.store import runs
from corral.work.loops import store as loops
from corral.work.merges.store import merges
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.tasks import attempts, combining
from corral.work.tasks.api import TITLE_LIMIT
from corral.work.tasks.dependencies import hold_back, reconsider, settle
from corral.work.tasks.store import dependencies, family, outcomes, tasks
from corral.work.tasks.wire import TaskSubmission, refuse

log = logger("queue")
_PREFIX = re.compile(r"[0-9a-f][0-9a-f-]{3,35}")
_NUMBER = re.compile(r"#?([1-9][0-9]{0,8})")
_NOT_STARTED = (TaskStatus.WAITING, TaskStatus.PENDING, TaskStatus.INTERRUPTED)
_WITH_WORKER = (TaskStatus.RUNNING, TaskStatus.INTERRUPTED)
_RETRYABLE = (TaskStatus.FAILED, TaskStatus.DEAD, TaskStatus.CANCELLED)
THE_WORK = ("task_type", "title", "description", "command", "prompt", "agent", "agent_version", "input_data")
"""The fields that are equal in two submissions of one task, from any client."""


def submit(
    conn: Connection, submission: TaskSubmission, now: datetime, rules: TaskRules, *, max_size: int | None = None
) -> TaskRow:
    """Queue one task; see :func:`submit_batch`."""
    return submit_batch(conn, [submission], now, rules, max_size=max_size)[0]


def submit_batch(
    conn: Connection,
    submissions: Sequence[TaskSubmission],
    now: datetime,
    rules: TaskRules,
    *,
    max_size: int | None = None,
    step_names: Sequence[str | None] = (),
) -> list[TaskRow]:
    """Queue tasks, all or none.

    A secret in a title is taken out before it is stored, since every face, event and commit shows titles. A submission whose
    ``idempotency_key`` is known is answered with the task it made the first time.

    Args:
        max_size: Largest number of tasks that wait or are pending, these included; None: any number.
        step_names: The name of each as a step of another task.

    Returns:
        The rows in the order of the submissions.

    Raises:
        InvalidInput: A dependency does not exist or goes in a circle, or a claim is no lock key.
        Conflict: The queue is full.
        IdempotencyKeyConflict: The key is that of another task.
    """
    submissions = [_with_shown_title(item) for item in submissions]
    known = [_submitted(conn, item) for item in submissions]
    fresh = [index for index, row in enumerate(known) if row is None]
    ids = [str(row["task_id"]) if row else new_id() for row in known]
    _check_room(conn, sum(submissions[index].number_of_tasks for index in fresh), max_size)
    parents, errors = _resolve(conn, submissions, ids)
    if errors:
        refuse(errors, len(submissions))
    waiting: list[TaskRow] = []
    rows = list(known)
    for index in fresh:
        others = parents[index] or submissions[index].agents is not None or submissions[index].steps
        status = TaskStatus.WAITING if others else TaskStatus.PENDING
        values = _values(submissions[index], ids[index], status, now, rules)
        if step_names:
            values["step"] = step_names[index]
        row = tasks.create(conn, values, _claims(submissions[index].claims))
        rows[index] = row
        if (loop := submissions[index].loop) is not None:
            about = {"task_id": ids[index], "title": row["title"], "created_at": iso(now)}
            loops.create(conn, {**about, "spec": loop.stored(), "counted_from": 0})
        runs.comment(conn, ids[index], submissions[index].feedback, iso(now))
        if parents[index] or submissions[index].steps:
            waiting.append(row)
        events.record(conn, now, EventKind.TASK_SUBMITTED, task_id=row["task_id"], session_id=row["submitted_by"])
    for index in fresh:  # now that all exist: a task may wait for a later one of its batch
        if submissions[index].steps:
            parents[index] = _submit_steps(conn, submissions[index], ids[index], parents[index], now, rules)
        dependencies.create(conn, ids[index], parents[index])
        if (agents := submissions[index].agents) is not None:
            names = list(step_names[index : index + 1]) * agents
            members = _members(submissions[index], ids[index], parents[index])
            submit_batch(conn, members, now, rules, step_names=names)
    if waiting:
        reconsider(conn, settle(conn, waiting, now, unblock_on=rules.unblock_on), now, unblock_on=rules.unblock_on)
    return [_known(conn, task_id) for task_id in ids] if waiting else [row for row in rows if row is not None]


def _with_shown_title(item: TaskSubmission) -> TaskSubmission:
    title = redact(item.title)
    return item if title == item.title else item.model_copy(update={"title": title})


def _members(item: TaskSubmission, task_id: str, parents: list[str]) -> list[TaskSubmission]:
    """The copies of a task that its agents do. They claim what it claims: it does not run itself meanwhile."""
    number = item.agents or 0
    common = {
        "agents": None,
        "combine": None,
        "name": None,
        "parent_task_id": task_id,
        "wait_for": parents,
    }
    return [
        item.model_copy(
            update={
                **common,
                "title": f"{item.title[: TITLE_LIMIT - 10]} ({position}/{number})",
                "idempotency_key": family.member_key(task_id, position),
            }
        )
        for position in range(1, number + 1)
    ]


def _submit_steps(
    conn: Connection, item: TaskSubmission, task_id: str, parents: list[str], now: datetime, rules: TaskRules
) -> list[str]:
    """Queue the steps of a task: it leads them, and the first ones wait for what it was to wait for."""
    steps = [
        step.model_copy(update={"parent_task_id": task_id, "wait_for": step.wait_for or parents}) for step in item.steps
    ]
    names = [step.name for step in item.steps]
    return [row["task_id"] for row in submit_batch(conn, steps, now, rules, step_names=names)]


def _submitted(conn: Connection, item: TaskSubmission) -> TaskRow | None:
    """The task that an earlier submission with the same key has made."""
    row = tasks.by_idempotency_key(conn, item.idempotency_key) if item.idempotency_key else None
    if row is not None and picked(row, THE_WORK) != {name: getattr(item, name) for name in THE_WORK}:
        raise IdempotencyKeyConflict(
            f"The key {item.idempotency_key!r} was used for another task.", details={"task_id": row["task_id"]}
        )
    return row


def find(conn: Connection, task_id: str) -> TaskRow:
    """A task by its id, the first four or more characters of it, its number (``12``, ``#12``), or its merge request's id.

    Raises:
        NotFound: No such task.
        InvalidInput: Several ids begin like that.
    """
    row = tasks.get(conn, task_id)
    if row is not None:
        return row
    task_ids = tasks.with_prefix(conn, task_id.lower()) if _PREFIX.fullmatch(task_id.lower()) else []
    if number := _NUMBER.fullmatch(task_id):
        task_ids += tasks.with_number(conn, int(number[1]))
    if not task_ids and _PREFIX.fullmatch(task_id.lower()):
        task_ids = merge_tasks.tasks_of(conn, task_id.lower())
    if not task_ids:
        raise NotFound(f"There is no task {task_id[:80]!r}.", remedy="`corral task list` shows all of them.")
    if len(task_ids) > 1:
        raise InvalidInput(
            f"{task_id!r} is the beginning or the number of several tasks.",
            cause="Among them: " + ", ".join(task_ids),
            remedy="Give more characters.",
        )
    return _known(conn, task_ids[0])


def cancel(
    conn: Connection,
    task_id: str,
    now: datetime,
    rules: TaskRules,
    *,
    reason: str = "Cancelled.",
    convention: bool = False,
) -> TaskRow:
    """Cancel a task: at once if it has no worker; else the supervisor is asked to stop it, or to end what is left of it.

    Args:
        convention: As the task document has it: it ends ``failed``, with ``result.error_code`` "cancelled_by_orchestrator".

    Returns:
        The row; while something of its worker may live it is still ``running`` or ``interrupted``, with ``cancel_reason`` set.

    Raises:
        NotFound: No such task.
        Conflict: It has ended already.
    """
    row = find(conn, task_id)
    is_running = row["status"] == TaskStatus.RUNNING
    if row["status"] in _WITH_WORKER and row["runner"] is not None:
        request: Columns = {"cancel_reason": reason}
        if convention:
            request["error_code"] = attempts.CANCELLED_BY_ORCHESTRATOR
        moved = tasks.transition(conn, row["task_id"], _WITH_WORKER, request, cancelled=None if convention else False)
        if moved is not None:
            events.record(conn, now, EventKind.TASK_CANCEL_REQUESTED({"reason": reason}), task_id=row["task_id"])
        return moved or row
    # A dependent that failed with its dependency would be revived with it; once cancelled, it is not.
    may_revive = row["status"] == TaskStatus.FAILED and row["error_code"] == dependencies.DEPENDENCY_FAILED
    if is_running or row["status"] in _NOT_STARTED or (convention and may_revive):
        moved = attempts.call_off(conn, row, now, rules, reason=reason, convention=convention)
        if moved is not None and is_running:
            notice = f"Task {row['task_id']} ({row['title'][:80]}) was cancelled: {reason} Stop working on it."
            sessions.notify(conn, required(row["session_id"]), notice, iso(now))
        if moved is not None:
            return moved
    if convention and row["error_code"] == attempts.CANCELLED_BY_ORCHESTRATOR:
        return row
    merge = merge_tasks.decisive(conn, row["task_id"])
    remedy = "There is nothing left to cancel."
    if merge is not None and merge["state"] in OPEN_MERGES:
        remedy = f"`corral merge cancel {merge['merge_id'][:8]}` takes what it made out of the queue."
    text = f"Task {row['task_id']} is {row['status']} already."
    raise Conflict(text, cause="Only a task that has not ended is cancelled.", remedy=remedy)


def retry(conn: Connection, task_id: str, now: datetime, rules: TaskRules) -> TaskRow:
    """Run a task again, a loop from its last iteration, with all its retries and limits; dependents that it failed revive.

    Raises:
        NotFound: No such task.
        Conflict: It has not ended, or it succeeded.
    """
    row = find(conn, task_id)
    if not _is_retryable(conn, row):
        cause = "Only a task that failed, is dead, was cancelled, or whose merge request came back can run again."
        text = f"Task {row['task_id']} is {row['status']}: there is nothing to retry."
        raise Conflict(text, cause=cause, remedy="Submit a new task.")
    fresh: Columns = dict.fromkeys(
        ("completed_at", "error_code", "error_message", "cancel_reason", "not_before_at", "result", "current_attempt",
         "dismissed_at")
    )  # fmt: skip
    # One that was given up because the daemon died with it stays under suspicion: it runs beside no other suspect.
    counts = {"attempts": 0, "faults": 0, "crashes": min(row["crashes"], 1)}
    moved = tasks.transition(conn, row["task_id"], (row["status"],), {**fresh, **counts, "status": TaskStatus.WAITING})
    if moved is None:
        raise Conflict(f"Task {row['task_id']} has moved on.", cause=RACED)
    events.record(conn, now, EventKind.TASK_RETRY_REQUESTED({"was": row["status"]}), task_id=row["task_id"])
    loops.count_anew(conn, row["task_id"])
    settle(conn, [moved], now, unblock_on=rules.unblock_on)
    for member in combining.failed_members(conn, row) if row["combine"] is not None else ():
        retry(conn, member, now, rules)
    for step in family.steps(conn, row["task_id"]) if row["steps_wanted"] is not None else ():
        if _is_retryable(conn, _known(conn, step["task_id"])):
            retry(conn, step["task_id"], now, rules)
    reconsider(conn, [row["task_id"]], now, unblock_on=rules.unblock_on)
    return _known(conn, row["task_id"])


def _is_retryable(conn: Connection, row: TaskRow) -> bool:
    """Whether it did not succeed, or what it made came back."""
    return row["status"] in _RETRYABLE or combining.came_back(conn, row)


def reprioritize(conn: Connection, task_id: str, priority: int, now: datetime) -> TaskRow:
    """Change the priority of a task that has not started.

    Args:
        priority: 0 to 10, 10 first.

    Raises:
        InvalidInput: The priority is out of range.
        Conflict: The task runs or has ended.
    """
    if isinstance(priority, bool) or not 0 <= priority <= 10:
        raise InvalidInput(f"{priority} is not a priority.", remedy="Use 0 to 10; 10 is first.")
    row = find(conn, task_id)
    moved = tasks.transition(conn, row["task_id"], _NOT_STARTED, {"priority": priority})
    if moved is None:
        text = f"Task {row['task_id']} is {row['status']}: its priority no longer matters."
        raise Conflict(text, cause="A priority orders the tasks that have not started.", remedy="Nothing to do.")
    event = EventKind.TASK_REPRIORITIZED({"from": row["priority"], "to": priority})
    events.record(conn, now, event, task_id=row["task_id"])
    return moved


def merge_settled(conn: Connection, task_id: str | None, now: datetime, *, unblock_on: str = "landed") -> None:
    """A merge request of this task has ended or is queued again: its dependents start, fail or wait, as their parents imply."""
    if task_id is not None:
        reconsider(conn, [task_id], now, unblock_on=unblock_on)
        if unblock_on == "completed":
            hold_back(conn, [task_id], now, unblock_on=unblock_on)


def _known(conn: Connection, task_id: str) -> TaskRow:
    row = tasks.get(conn, task_id)
    if row is None:
        raise NotFound(f"There is no task {task_id!r}.")
    return row


def _check_room(conn: Connection, number: int, max_size: int | None) -> None:
    if max_size is None or not number or tasks.at_most(conn) + number <= max_size:
        return
    queued = tasks.count_queued(conn)
    if queued + number > max_size:
        log.warning("queue_full", limit="queue.max_size", used=queued, submitted=number, allowed=max_size)
        raise Conflict(
            f"The queue is full: {queued} tasks wait, {number} more were submitted, {max_size} are allowed.",
            cause="`queue.max_size` is the largest number of tasks that are `waiting` or `pending`.",
            remedy="Wait until some have started, or raise `queue.max_size`.",
        )


def errors_in(conn: Connection, submissions: Sequence[TaskSubmission]) -> list[Payload]:
    """The errors for which :func:`submit_batch` would refuse these: ``[{index, field, message}]``."""
    return _resolve(conn, submissions, [new_id() for _ in submissions])[1]


def _resolve(
    conn: Connection, submissions: Sequence[TaskSubmission], ids: Sequence[str]
) -> tuple[list[list[str]], list[Payload]]:
    """For each submission the ids it waits for, and the errors in them."""
    local = {item.name: ids[index] for index, item in enumerate(submissions) if item.name is not None}
    titles = Counter(item.title for item in submissions)
    named = {item.title: ids[index] for index, item in enumerate(submissions) if len(submissions) > 1} | local
    errors: list[Payload] = []
    for field in ("name", "idempotency_key"):
        known: set[str] = set()
        for index, item in enumerate(submissions):
            value = getattr(item, field)
            if value is not None and value in known:
                errors.append({"index": index, "field": field, "message": f"{value!r} is given twice"})
            known.add(value)
    parents: list[list[str]] = []
    for index, item in enumerate(submissions):
        waits_for: dict[str, None] = {}
        for dependency in item.wait_for:
            if dependency not in local and titles[dependency] > 1:
                text = f"{titles[dependency]} tasks of the batch are called {dependency!r}: give them a `name`"
                errors.append({"index": index, "field": "wait_for", "message": text})
                continue
            try:
                waits_for[named[dependency] if dependency in named else find(conn, dependency)["task_id"]] = None
            except CorralError as error:
                errors.append({"index": index, "field": "wait_for", "message": error.message})
        parents.append(list(waits_for))
    shown_as = {ids[index]: item.name or item.title for index, item in enumerate(submissions)}
    cycle = blocking_cycle(dict(zip(ids, parents, strict=True)))
    if cycle is not None:
        shown = " → ".join(shown_as[node] for node in cycle)
        errors.append({"index": ids.index(cycle[0]), "field": "wait_for", "message": f"circular dependency: {shown}"})
    for index, item in enumerate(submissions):
        errors += [{"index": index, "field": "claims", "message": text} for text in _bad_claims(item.claims)]
        for step in item.steps:
            field = f"steps.{step.name}.claims"
            errors += [{"index": index, "field": field, "message": text} for text in _bad_claims(step.claims)]
    return parents, errors


def _bad_claims(claims: Iterable[str]) -> Iterable[str]:
    for claim in claims:
        try:
            parse_key(claim)
        except CorralError as error:
            yield error.message


def _claims(claims: Iterable[str]) -> list[str]:
    """The claims in canonical spelling, which comparisons need: `./src//a.py` is `src/a.py`."""
    return list(dict.fromkeys(parse_key(claim).file_path for claim in claims))


def _values(item: TaskSubmission, task_id: str, status: TaskStatus, now: datetime, rules: TaskRules) -> Columns:
    fields = item.model_dump(
        mode="json",
        exclude={"wait_for", "claims", "name", "max_retries", "limits", "agents", "loop", "steps", "feedback"},
        exclude_none=True,
    )
    return {
        **fields,
        "task_id": task_id,
        "status": status,
        "agents_wanted": item.agents,
        "steps_wanted": len(item.steps) or None,
        "limits": item.limits.model_dump(exclude_none=True),
        "max_retries": rules.retries if item.max_retries is None else item.max_retries,
        "retries_chosen": item.max_retries is not None or rules.max_retries is not None,
        "attempts": 0,
        "fencing_token": 0,
        "created_at": iso(now),
    }


# -- Settle what failed: a person or an agent says that nothing more is to be done about it


def dismiss(conn: Connection, name: str, now: datetime) -> Payload:
    """Dismiss a merge request that came back, or a task that failed or whose merge request came back. Safe to repeat.

    Nothing is deleted: the branch stays, and a retry takes the dismissal back.

    Args:
        name: The id of a merge request or of a task, the beginning of one, or a task's number.

    Returns:
        ``merge_id`` and ``task_id`` (None where there is none), and ``outcome``.

    Raises:
        NotFound: There is neither.
        Conflict: Nothing failed.
    """
    merge, task = _named(conn, name)
    if task is not None and outcomes.dismiss_task(conn, task["task_id"], iso(now)):
        events.record(conn, now, EventKind.TASK_DISMISSED, task_id=task["task_id"])
    elif merge is not None and merge["state"] in RETURNED_MERGES:
        if outcomes.dismiss_merge(conn, merge["merge_id"], iso(now)) is not None:
            events.record(conn, now, EventKind.MERGE_DISMISSED, task_id=merge["task_id"], merge_id=merge["merge_id"])
    elif task is None or task["dismissed_at"] is None:
        raise _nothing_failed(task, merge)
    task_id = task["task_id"] if task is not None else merge["task_id"] if merge is not None else None
    return {"merge_id": merge["merge_id"] if merge else None, "task_id": task_id, "outcome": "dismissed"}


def _named(conn: Connection, name: str) -> tuple[MergeRow | None, TaskRow | None]:
    """The merge request that a text names; else the task, with its request."""
    if not merge_tasks.is_number(name):
        with contextlib.suppress(NotFound):
            return merges.get(conn, name), None
    task = _task(conn, name)
    return merge_tasks.decisive(conn, task["task_id"]), task


def _task(conn: Connection, name: str) -> TaskRow:
    try:
        return find(conn, name)
    except NotFound as error:
        raise NotFound(
            f"There is no merge request and no task {name[:80]!r}.",
            remedy="`corral merge list` and `corral task list` show them all.",
        ) from error


def _nothing_failed(task: TaskRow | None, merge: MergeRow | None) -> Conflict:
    subject = f"Task {task['task_id']}" if task is not None else "It"
    state = task["status"] if task is not None else ""
    if merge is not None:
        subject = f"Merge request {merge['merge_id']}"
        state = merge["state"]
    is_open = merge is not None and merge["state"] in OPEN_MERGES
    return Conflict(
        f"{subject} is {state}: there is nothing to dismiss.",
        cause="Only what failed or came back can be dismissed.",
        remedy="`corral merge cancel ID` takes it out of the queue." if is_open else "Nothing to do.",
    )
