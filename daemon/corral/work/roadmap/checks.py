"""Checks of a roadmap as a whole, and its tasks as submissions to the queue."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from corral.config.trust import Claim
from corral.core.errors import InvalidInput
from corral.core.payload import Payload
from corral.core.states import RunnerName, read_phases
from corral.core.visible import one_line
from corral.work.evidence.bundle import OF_ROADMAP, PROCESS, REQUIRED, name_of_folder
from corral.work.roadmap.document import DONE, Problem, Roadmap, RoadmapTask, read_tasks
from corral.work.tasks.wire import DEPENDENCIES, TaskSubmission, read_submissions

KEY = OF_ROADMAP[0]
"""Before the id of a roadmap task, in the idempotency key of its queue task."""

LONGEST_ID = 128 - len(KEY)
"""Characters of an id: that of the queue task has at most 128."""

WORK = "roadmap_work"
"""The key of a queue task's metadata with a digest of its description in the file at its submission."""

PRIORITY = "roadmap_priority"
"""The key of its priority in the file then; a person may have changed the priority in the queue since."""

_TAKEN_OVER = ("description", "command", "prompt", "agent", "runner", "claims", "timeout_s", "max_retries", "limits")
_EXECUTED = ("command", "prompt", "description", "agent", "runner")
_FIELDS = {"agent_requirements.capabilities": "capabilities"}
_KEYS = {
    **{key: key for key in ("id", "title", "status", "dependencies", "priority", "domain", "exit_criteria")},
    **{key: key for key in ("estimate_hours", "capabilities", PROCESS, REQUIRED, *_TAKEN_OVER)},
    **dict.fromkeys((*DEPENDENCIES, "wait_for"), "dependencies"),
    "agent_requirements": "capabilities",
}
"""The keys of a task, and other names that people give them. Keys of a team's own (`kpi`) are none of Corral's business."""
_LIKE = 0.82
"""How much a key is like one of these if that is meant; `set_id`, `domain_id` and `subtitle` are keys of their own."""


def read_roadmap(data: bytes, source: str = "roadmap.yaml") -> Roadmap:
    """Read and check a roadmap; a task with a problem is named, and the others can be worked on.

    Args:
        source: The file, as an approval of what is in it names it.

    Raises:
        DocumentError: Nothing in it can be read; says the line.
    """
    text, tasks, problems = read_tasks(data)
    problems += _duplicates(tasks)
    problems += _dependencies(tasks)
    claims: dict[str, Claim] = {}
    for task in tasks:
        if task.status != DONE:
            unfit = list(_unfit(task))
            problems += unfit
            if not unfit:
                claims[task.task_id] = claim_of(task, source)
    problems.sort(key=lambda problem: problem.line or 0)
    broken = frozenset(problem.task_id for problem in problems if problem.task_id is not None)
    return Roadmap(text, tuple(tasks), tuple(problems), broken, claims)


def claim_of(task: RoadmapTask, source: str) -> Claim:
    """The command or prompt of a task, to be approved by a person; the same whatever its status, priority and place.

    Raises:
        InvalidInput: It cannot be a queue task.
    """
    submission = submission_of(task)
    value = submission.model_dump(mode="json", include=set(_EXECUTED), exclude_none=True)
    return Claim(f"roadmap.{task.task_id}", value, source)


def submission_of(task: RoadmapTask) -> TaskSubmission:
    """The queue task of a roadmap task.

    Raises:
        InvalidInput: It cannot be one; ``details['errors']`` names each wrong key.
    """
    fields: Payload = {key: task.fields[key] for key in _TAKEN_OVER if task.fields.get(key) is not None}
    if isinstance(fields.get("claims"), str):
        fields["claims"] = [fields["claims"]]
    if (capabilities := task.fields.get("capabilities")) is not None:
        listed = [capabilities] if isinstance(capabilities, str) else capabilities
        fields["agent_requirements"] = {"capabilities": listed}
    if "command" not in fields and "prompt" not in fields:
        fields["prompt"] = _prompt(task)
    fields["title"] = task.title
    chosen = _chosen_process(task)
    text = json.dumps(fields | chosen, sort_keys=True, default=str)
    work = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    fields |= {
        "priority": task.priority,
        "idempotency_key": KEY + task.task_id,
        "metadata": {"roadmap_id": task.task_id, WORK: work, PRIORITY: task.priority, **chosen},
    }
    return read_submissions([fields])[0]


def _chosen_process(task: RoadmapTask) -> Payload:
    """What a task says itself of its phases."""
    chosen = {key: task.fields[key] for key in (PROCESS, REQUIRED) if task.fields.get(key) is not None}
    errors: list[Payload] = []
    if PROCESS in chosen:
        try:
            chosen[PROCESS] = read_phases(chosen[PROCESS])
        except ValueError as error:
            errors.append({"field": PROCESS, "message": str(error)})
    if not isinstance(chosen.get(REQUIRED, False), bool):
        errors.append({"field": REQUIRED, "message": "must be true or false"})
    if errors:
        raise InvalidInput("The phases of a task are not valid.", details={"errors": errors})
    return chosen


def _prompt(task: RoadmapTask) -> str:
    parts = [task.title, str(task.fields.get("description") or "")]
    criteria = task.fields.get("exit_criteria")
    if isinstance(criteria, list) and criteria:
        parts.append("\n".join(["Exit criteria:", *(f"- {criterion}" for criterion in criteria)]))
    elif criteria:
        parts.append(f"Exit criteria: {criteria}")
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _unfit(task: RoadmapTask) -> Iterable[Problem]:
    if len(task.task_id) > LONGEST_ID:
        shown = f"{task.task_id[:40]}…"
        yield Problem(f"the id {shown} has more than {LONGEST_ID} characters", task.line, task.task_id)
        return
    if misread := list(_misread(task)):
        yield from misread
        return
    runner = task.fields.get("runner")
    if runner is not None and runner not in RunnerName.values():
        *some, last = RunnerName.values()
        yield Problem(f"unknown runner {runner!r}: use {', '.join(some)} or {last}", task.line, task.task_id)
        return
    try:
        submission_of(task)
    except InvalidInput as error:
        for problem in error.details["errors"]:
            field = _FIELDS.get(problem["field"], problem["field"])
            yield Problem(f"{field}: {problem['message']}" if field else problem["message"], task.line, task.task_id)


def _misread(task: RoadmapTask) -> Iterable[Problem]:
    """Keys that are not read as they are meant: with a misspelt dependency a task would begin too early."""
    for key in map(str, task.fields):
        near = difflib.get_close_matches(key[:100], _KEYS, 1, _LIKE)
        if near and _KEYS[near[0]] != key:
            yield Problem(f"`{one_line(key)}` is not a known key; write `{_KEYS[near[0]]}`", task.line, task.task_id)
        elif not near and key in TaskSubmission.model_fields:
            yield Problem(f"`{key}` is not possible in a roadmap, but in `corral task submit`", task.line, task.task_id)


def _duplicates(tasks: Sequence[RoadmapTask]) -> Iterable[Problem]:
    """Ids that are given twice, or that a file system without case would confuse; both tasks wait."""
    first: dict[str, RoadmapTask] = {}
    for task in tasks:
        other = first.setdefault(name_of_folder(task.task_id).casefold(), task)
        if other is task:
            continue
        if other.task_id == task.task_id:
            message = f"the id {task.task_id} is given twice, first in line {other.line}"
            yield Problem(message, task.line, task.task_id)
            continue
        for unclear, similar in ((other, task), (task, other)):
            message = f"the id {unclear.task_id} is too much like {similar.task_id} in line {similar.line}: rename one"
            yield Problem(message, unclear.line, unclear.task_id)


def _dependencies(tasks: Sequence[RoadmapTask]) -> Iterable[Problem]:
    known = {task.task_id for task in tasks}
    lines = {task.task_id: task.line for task in tasks}
    for task in tasks:
        if task.status == DONE:
            continue
        for dependency in task.dependencies:
            if dependency not in known:
                yield Problem(f"depends on {dependency}, which is not in the roadmap", task.line, task.task_id)
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
