"""Checks of a roadmap as a whole, and its tasks as submissions to the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from corral.errors import InvalidInput
from corral.models.payload import Payload
from corral.models.states import RunnerName
from corral.models.tasks import TaskSubmission, read_submissions
from corral.work.roadmap.document import DONE, Problem, Roadmap, RoadmapTask, read_tasks

KEY = "roadmap:"
"""Before the id of a roadmap task, in the idempotency key of its queue task."""

_GIVEN = ("description", "command", "prompt", "agent", "runner", "claims")


def read_roadmap(data: bytes) -> Roadmap:
    """Read and check a roadmap; a task with a problem is named, and the others can be worked on.

    Raises:
        DocumentError: Nothing in it can be read; says the line.
    """
    text, tasks, problems = read_tasks(data)
    problems += _duplicates(tasks)
    problems += _dependencies(tasks)
    for task in tasks:
        if task.status != DONE:
            problems += _unfit(task)
    problems.sort(key=lambda problem: problem.line or 0)
    broken = frozenset(problem.task_id for problem in problems if problem.task_id is not None)
    return Roadmap(text, tuple(tasks), tuple(problems), broken)


def submission_of(task: RoadmapTask) -> TaskSubmission:
    """The queue task of a roadmap task.

    Raises:
        InvalidInput: It cannot be one; ``details['errors']`` names each wrong key.
    """
    given: Payload = {key: task.fields[key] for key in _GIVEN if task.fields.get(key) is not None}
    if isinstance(given.get("claims"), str):
        given["claims"] = [given["claims"]]
    if "command" not in given and "prompt" not in given:
        given["prompt"] = _prompt(task)
    given |= {
        "title": task.title,
        "priority": task.priority,
        "idempotency_key": KEY + task.task_id,
        "metadata": {"roadmap_id": task.task_id},
    }
    return read_submissions([given])[0]


def _prompt(task: RoadmapTask) -> str:
    parts = [task.title, str(task.fields.get("description") or "")]
    criteria = task.fields.get("exit_criteria")
    if isinstance(criteria, list) and criteria:
        parts.append("\n".join(["Exit criteria:", *(f"- {one}" for one in criteria)]))
    elif criteria:
        parts.append(f"Exit criteria: {criteria}")
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _unfit(task: RoadmapTask) -> Iterable[Problem]:
    runner = task.fields.get("runner")
    if runner is not None and runner not in RunnerName.values():
        *some, last = RunnerName.values()
        yield Problem(f"unknown runner {runner!r}: use {', '.join(some)} or {last}", task.line, task.task_id)
        return
    try:
        submission_of(task)
    except InvalidInput as error:
        for one in error.details["errors"]:
            field = {"idempotency_key": "id"}.get(one["field"], one["field"])
            yield Problem(f"{field}: {one['message']}" if field else one["message"], task.line, task.task_id)


def _duplicates(tasks: Sequence[RoadmapTask]) -> Iterable[Problem]:
    first: dict[str, int] = {}
    for task in tasks:
        line = first.setdefault(task.task_id, task.line)
        if line != task.line:
            yield Problem(f"the id {task.task_id} is given twice, first in line {line}", task.line, task.task_id)
    # Two tasks in one line, as `[{id: A}, {id: A}]` has them.
    for task_id, count in Counter((task.task_id, task.line) for task in tasks).items():
        if count > 1:
            yield Problem(f"the id {task_id[0]} is given twice", task_id[1], task_id[0])


def _dependencies(tasks: Sequence[RoadmapTask]) -> Iterable[Problem]:
    known = {task.task_id for task in tasks}
    lines = {task.task_id: task.line for task in tasks}
    for task in tasks:
        if task.status == DONE:
            continue
        for wanted in task.dependencies:
            if wanted not in known:
                yield Problem(f"depends on {wanted}, which is not in the roadmap", task.line, task.task_id)
    for cycle in _cycles({task.task_id: task.dependencies for task in tasks if task.status != DONE}):
        shown = " → ".join([*cycle, cycle[0]])
        for task_id in cycle:
            yield Problem(f"circular dependency: {shown}", lines[task_id], task_id)


def _cycles(parents: Mapping[str, Sequence[str]]) -> Iterable[list[str]]:
    """Cycles in which each node that is in a cycle appears at least once, if its path reaches no other cycle first."""
    state: dict[str, int] = {}  # 1: on the path that is being followed; 2: settled
    for root in parents:
        path: list[str] = []
        stack = [(root, iter(parents[root]))] if root not in state else []
        if stack:
            state[root] = 1
            path.append(root)
        while stack:
            node, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[node] = 2
                stack.pop()
                path.pop()
            elif state.get(following) == 1:
                yield path[path.index(following) :]
            elif following in parents and following not in state:
                state[following] = 1
                path.append(following)
                stack.append((following, iter(parents[following])))
