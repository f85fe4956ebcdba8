"""Notes of a status: tasks of the roadmap that wait for a person, and edits of the file without effect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from corral.config.trust import Claim
from corral.core.errors import InvalidInput
from corral.core.states import TaskStatus
from corral.store.rows import required
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import RoadmapTaskRow
from corral.work.merges.wire import needs_approval
from corral.work.roadmap import sync
from corral.work.roadmap.checks import WORK, submission_of
from corral.work.roadmap.document import BLOCKED, DONE, IN_PROGRESS, PENDING, Problem, Roadmap, RoadmapTask

MOST_NAMED = 5
"""Tasks that a note names as those that wait."""


def notes(
    roadmap: Roadmap,
    rows: Mapping[str, RoadmapTaskRow],
    held: Sequence[MergeRow],
    unapproved: Collection[Claim],
    *,
    is_supervised: bool,
) -> list[Problem]:
    """Tasks that wait for a person, and edits that have no effect: each with the reason and what to type.

    Args:
        rows: The queue task of each roadmap task that has one.
        held: The merge requests that wait for something.
        unapproved: Commands and prompts that the user has not approved.
    """
    holds = {row["task_id"]: row for row in held if row["task_id"] is not None}
    waiting = {claim.key for claim in unapproved}
    problems: list[Problem] = []
    for task in roadmap.sound:
        row, claim = rows.get(task.task_id), roadmap.claims.get(task.task_id)
        if row is not None:
            messages = list(_of_task(task, row, holds.get(row["task_id"]), is_supervised))
            problems += [Problem(message, task.line, task.task_id) for message in messages]
        elif task.status == IN_PROGRESS:
            message = "says in_progress, but no task of the queue does it: set it to pending to have it done"
            problems.append(Problem(message, task.line, task.task_id))
        is_next = task.status == PENDING and (row is None or sync.can_run_again(row))
        if is_next and claim is not None and claim.key in waiting:
            remedy = "corral trust" if is_supervised else "corral supervisor start, or once"
            message = f"waits until you have approved what it executes: {remedy}"
            problems.append(Problem(message, task.line, task.task_id))
    problems += _keeping_others(roadmap)
    in_file = {task.task_id for task in roadmap.tasks}
    for task_id, row in rows.items():
        if task_id not in in_file and row["status"] == TaskStatus.RUNNING:
            message = (
                f"is not in the file any more, but still runs. To stop it: corral task cancel {row['task_id'][:8]}"
            )
            problems.append(Problem(message, None, task_id))
    return problems


def _keeping_others(roadmap: Roadmap) -> Iterator[Problem]:
    """Tasks that will not run in their state, and keep pending tasks waiting, which have no error themselves."""
    waiting: dict[str, list[str]] = {}
    for task in roadmap.sound:
        if task.status == PENDING:
            for dependency in task.dependencies:
                waiting.setdefault(dependency, []).append(task.task_id)
    for task in roadmap.tasks:
        is_wrong = task.task_id in roadmap.broken
        if not (is_wrong or task.status == BLOCKED):
            continue
        dependents = dict.fromkeys(waiting.get(task.task_id, ()))
        queue = [*dependents]
        while queue:
            further = [task_id for task_id in waiting.get(queue.pop(), ()) if task_id not in dependents]
            dependents |= dict.fromkeys(further)
            queue += further
        if dependents:
            shown = ", ".join([*dependents][:MOST_NAMED]) + (
                f" and {len(dependents) - MOST_NAMED} more" if len(dependents) > MOST_NAMED else ""
            )
            why = "has an error" if is_wrong else f"is {BLOCKED}: set it to {PENDING} to run it again, or to {DONE}"
            yield Problem(f"keeps {shown} waiting, since it {why}", task.line, task.task_id)


def _of_task(task: RoadmapTask, row: RoadmapTaskRow, held: MergeRow | None, is_supervised: bool) -> Iterator[str]:
    queued = row["task_id"][:8]
    if held is not None:
        merge, verb = held["merge_id"][:8], "approve" if needs_approval(held) else "detail"
        yield f"waits to land: {required(held['reason']).splitlines()[0]} corral merge {verb} {merge}"
    if sync.is_waiting(row):
        if not is_supervised and sync.differs(task, row, _work(task)) is not None:
            yield (
                f"was changed, but the supervisor is stopped: its task {queued} stays in the queue as it was. "
                "For the change: corral supervisor start"
            )
    elif sync.is_open(row):
        if task.status in (PENDING, BLOCKED, DONE) and task.status != sync.status_of(row) == sync.recorded_status(row):
            yield f"says {task.status}, but its task goes on. To stop it: corral task cancel {queued}"
        elif task.status != DONE and not sync.is_same_work(row, _work(task)):
            yield (
                f"was changed after its task {queued} had started, which goes on as it was. For the change: corral task "
                f"cancel {queued}, then set it to pending"
            )
    elif task.status == IN_PROGRESS and sync.status_of(row) == sync.recorded_status(row) != IN_PROGRESS:
        yield f"says in_progress, but its task is over: set it to pending, {BLOCKED} or {DONE}"


def _work(task: RoadmapTask) -> str | None:
    try:
        return str((submission_of(task).metadata or {})[WORK])
    except InvalidInput:  # a task that is done may be one
        return None
