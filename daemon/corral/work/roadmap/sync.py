"""Compare the roadmap with the queue: the changes to write into the file, and those to make in the queue.

The file has what a person wants, the queue task its outcome. ``metadata.roadmap_status`` of the queue task is the status that
Corral last wrote into the file: another status in the file was set by a person.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from corral.config.trust import Claim
from corral.core.errors import InvalidInput
from corral.core.states import OPEN_MERGES, MergeState, TaskStatus
from corral.store.rows import required
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import RoadmapTaskRow
from corral.work.merges.wire import needs_approval
from corral.work.roadmap.checks import PRIORITY, WORK, submission_of
from corral.work.roadmap.document import BLOCKED, DONE, IN_PROGRESS, PENDING, Problem, Roadmap, RoadmapTask
from corral.work.tasks.store.dependencies import DEPENDENCY_FAILED

STATUS = "roadmap_status"
"""The key of a queue task's metadata with the status that was last written into the file."""

_WAITING = (TaskStatus.WAITING, TaskStatus.PENDING)
_OPEN = (*_WAITING, TaskStatus.RUNNING, TaskStatus.INTERRUPTED)


@dataclass
class Changes:
    """The steps that bring the two together.

    Attributes:
        write: For a task of the file, the status that it has and the one that it gets.
        recorded: For a queue task, the status that the file then has.
        withdraw: Queue tasks that the file wants no longer, or differently, and why.
        reprioritize: Queue tasks that have another priority in the file now.
    """

    write: dict[str, tuple[str, str]] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)
    withdraw: dict[str, str] = field(default_factory=dict)
    reprioritize: dict[str, int] = field(default_factory=dict)


def status_of(row: RoadmapTaskRow) -> str | None:
    """The status that a queue task gives its roadmap task; None: what it had before."""
    status, merge = row["status"], row["merge_state"]
    if status == TaskStatus.RUNNING:
        return IN_PROGRESS
    if status == TaskStatus.COMPLETED:
        if merge in OPEN_MERGES:
            return IN_PROGRESS
        return DONE if merge in (None, MergeState.LANDED) else BLOCKED
    if status == TaskStatus.FAILED and row["error_code"] == DEPENDENCY_FAILED:
        return None  # it is the dependency that is blocked, and this one lives again with it
    return None if status in _OPEN else BLOCKED


def recorded_status(row: RoadmapTaskRow) -> str:
    """The status that Corral last wrote into the file for this queue task."""
    return str((row["metadata"] or {}).get(STATUS, PENDING))


def is_open(row: RoadmapTaskRow) -> bool:
    """Whether a queue task is not over: it waits, runs, or waits to land."""
    return row["status"] in _OPEN or (row["status"] == TaskStatus.COMPLETED and row["merge_state"] in OPEN_MERGES)


def is_unrecorded(row: RoadmapTaskRow) -> bool:
    """Whether the status of a queue task is not yet in the file."""
    return (status_of(row) or recorded_status(row)) != recorded_status(row)


def can_run_again(row: RoadmapTaskRow) -> bool:
    """Whether ``pending`` in the file means that a person wants it again: the file had the status of its end before."""
    return recorded_status(row) in (BLOCKED, DONE) and status_of(row) == recorded_status(row)


def is_waiting(row: RoadmapTaskRow) -> bool:
    """Whether a queue task waits for its first attempt, or for its next one."""
    return row["status"] in _WAITING


def is_same_work(row: RoadmapTaskRow, work: str | None) -> bool:
    """Whether the file describes a queue task as it did at its submission.

    Args:
        work: :data:`corral.work.roadmap.checks.WORK` of the file now; None: nothing that could be submitted.
    """
    return (row["metadata"] or {}).get(WORK) == work


def differs(task: RoadmapTask, row: RoadmapTaskRow, work: str | None) -> str | None:
    """Why a waiting queue task no longer matches the file; None: it matches."""
    status = task.status
    # Between two attempts `in_progress` may be a word of Corral's own, not remembered because the daemon was killed.
    if status != recorded_status(row) and not (status == IN_PROGRESS and row["fencing_token"] > 0):
        return f"The roadmap says that it is {status}."
    return None if is_same_work(row, work) else "It was changed in the roadmap."


def compare(
    roadmap: Roadmap, rows: Mapping[str, RoadmapTaskRow], works: Mapping[str, str], *, picking: bool
) -> Changes:
    """Compare the file with the queue.

    Args:
        rows: The queue task of each roadmap task that has one.
        works: The work of each task in the file that could be submitted now.
        picking: Whether the roadmap is worked on; if not, nothing in the queue is changed.
    """
    changes = Changes()
    tasks = {task.task_id: task for task in roadmap.tasks}
    unblocked = with_done_dependencies(roadmap.sound)
    for task_id, row in rows.items():
        task = tasks.get(task_id)
        if task is None or task_id in roadmap.broken or task.status is None:
            if picking and is_waiting(row) and (task is None or row["fencing_token"] == 0):
                why = "It is not in the roadmap any more." if task is None else "The roadmap has an error there."
                changes.withdraw[row["task_id"]] = why
            elif task is None and is_unrecorded(row):
                changes.recorded[row["task_id"]] = status_of(row) or PENDING
            continue
        _compare_status(changes, task, row)
        if picking and is_waiting(row):
            _compare_waiting(changes, task, row, works.get(task_id), task_id in unblocked)
    return changes


def _compare_status(changes: Changes, task: RoadmapTask, row: RoadmapTaskRow) -> None:
    status, in_file = status_of(row), str(task.status)
    if status is not None and status != recorded_status(row):
        changes.recorded[row["task_id"]] = status
        if in_file not in (status, DONE):  # a person's `done` is not taken back
            changes.write[task.task_id] = (in_file, status)


def _compare_waiting(
    changes: Changes, task: RoadmapTask, row: RoadmapTaskRow, work: str | None, is_unblocked: bool
) -> None:
    why = differs(task, row, work)
    if why is None and not is_unblocked:
        why = "A task that it depends on is not done."
    if why is not None:
        changes.withdraw[row["task_id"]] = why
        if task.status == IN_PROGRESS and row["fencing_token"] > 0:  # so that it is submitted again
            changes.write[task.task_id] = (IN_PROGRESS, PENDING)
    elif task.priority != (row["metadata"] or {}).get(PRIORITY):
        changes.reprioritize[row["task_id"]] = task.priority


def candidates(roadmap: Roadmap, rows: Mapping[str, RoadmapTaskRow]) -> list[RoadmapTask]:
    """The tasks to submit, or to run again, next first."""
    known = {task_id: row for task_id, row in rows.items() if not can_run_again(row)}
    return [task for task in plan_next(roadmap.sound) if task.task_id not in known]


def room(rows: Mapping[str, RoadmapTaskRow], max_agents: int) -> int:
    """How many more tasks may be open: at most twice as many as workers, so that later changes of the order still count."""
    return 2 * max_agents - sum(is_open(row) for row in rows.values())


def parents(task: RoadmapTask, rows: Mapping[str, RoadmapTaskRow]) -> list[str]:
    """The queue tasks that a task has waited for; one that a person has called done does not count."""
    waited_for = [rows[dependency] for dependency in task.dependencies if dependency in rows]
    return [row["task_id"] for row in waited_for if status_of(row) == DONE]


def plan_next(tasks: Iterable[RoadmapTask]) -> list[RoadmapTask]:
    """The tasks to work on next: pending, with every dependency done; highest priority first, then in the file's order.

    Args:
        tasks: In the file's order.
    """
    known = list(tasks)
    unblocked = with_done_dependencies(known)
    ready = [task for task in known if task.status == PENDING and task.task_id in unblocked]
    return sorted(ready, key=lambda task: -task.priority)


def with_done_dependencies(tasks: Iterable[RoadmapTask]) -> set[str]:
    """The ids of the tasks whose dependencies are all done."""
    known = list(tasks)
    done = {task.task_id for task in known if task.status == DONE}
    return {task.task_id for task in known if done.issuperset(task.dependencies)}


# -- Notes of a status: tasks of the roadmap that wait for a person, and edits of the file without effect

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
        is_next = task.status == PENDING and (row is None or can_run_again(row))
        if is_next and claim is not None and claim.key in waiting:
            remedy = "corral trust" if is_supervised else "`corral supervisor start`, or `corral supervisor once`"
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
    if is_waiting(row):
        if not is_supervised and differs(task, row, _work(task)) is not None:
            yield (
                f"was changed, but the supervisor is stopped: its task {queued} stays in the queue as it was. "
                "For the change: corral supervisor start"
            )
    elif is_open(row):
        if task.status in (PENDING, BLOCKED, DONE) and task.status != status_of(row) == recorded_status(row):
            yield f"says {task.status}, but its task goes on. To stop it: corral task cancel {queued}"
        elif task.status != DONE and not is_same_work(row, _work(task)):
            yield (
                f"was changed after its task {queued} had started, which goes on as it was. For the change: corral task "
                f"cancel {queued}, then set it to pending"
            )
    elif task.status == IN_PROGRESS and status_of(row) == recorded_status(row) != IN_PROGRESS:
        yield f"says in_progress, but its task is over: set it to pending, {BLOCKED} or {DONE}"


def _work(task: RoadmapTask) -> str | None:
    try:
        return str((submission_of(task).metadata or {})[WORK])
    except InvalidInput:  # a task that is done may be one
        return None
