"""The state of a task that is made of steps, derived from theirs, in whatever order they changed.

It waits until each step has ended and what that changed has landed or come back: a step that fails ends those that wait for
it, and no other one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.links import make_own_folder
from corral.core.outcomes import of_task
from corral.core.payload import Payload
from corral.core.states import TaskStatus
from corral.runners.process import open_private
from corral.store.rows.tasks import ParentResult, ParentTask, TaskRow
from corral.work.tasks.outlook import Outlook, outlook
from corral.work.tasks.store import dependencies
from corral.work.tasks.wire import TaskSubmission
from corral.work.worktrees.allocation import WorktreeContext

MOST_OF_RESULTS = 200_000
"""Characters of the results of the last steps together; each task has its own whole."""
_MOST_OF_REASON = 500


def standing(steps: Sequence[ParentTask]) -> tuple[TaskStatus, str | None]:
    """The state of a task that is made of these steps, and why it failed.

    Args:
        steps: The oldest first.
    """
    lost: list[ParentTask] = []
    for step in steps:
        prospect = outlook(step["status"], step["merge_state"], "landed")
        if prospect is Outlook.OPEN:
            return TaskStatus.WAITING, None
        lost += [step] if prospect is Outlook.LOST else []
    if not lost:
        return TaskStatus.COMPLETED, None
    first = next((step for step in lost if step["error_code"] != dependencies.DEPENDENCY_FAILED), lost[0])
    others = f" {len(lost)} of {len(steps)} steps did not succeed." if len(lost) > 1 else ""
    return (
        TaskStatus.FAILED,
        f"Its step {first['step'] or first['title'][:80]} ({first['task_id']}) {_how(first)}.{others}",
    )


def _how(step: ParentTask) -> str:
    if step["status"] == TaskStatus.COMPLETED:
        return (
            f"did not land: its merge request ended as {of_task(step['status'], step['merge_state'], dismissed=False)}"
        )
    error = (step["error_message"] or step["error_code"] or "").rstrip(".")[:_MOST_OF_REASON]
    return f"is {step['status']}{f': {error}' if error else ''}"


def result(conn: Connection, task_id: str) -> Payload:
    """The result of a task whose steps are done: those of the steps that no other one waits for, by their names."""
    results: Payload = {}
    left_out, room = 0, MOST_OF_RESULTS
    for step in dependencies.last_of(conn, task_id):
        room -= len(json.dumps(step["result"], ensure_ascii=False))
        if room < 0:
            left_out += 1
            continue
        results[step["step"] or step["task_id"]] = step["result"]
    return {"steps": results, **({"left_out": left_out} if left_out else {})}


# -- The results of earlier steps, for a step that waited for them: as text for a prompt, and as a file for a command

VARIABLE = "CORRAL_RESULTS_FILE"
"""Names the file, in the environment of a step: ``[{step, task_id, title, status, result}]``."""
_MOST_OF_ONE = 4000
_MOST_OF_ALL = 60_000


def of_earlier_steps(context: WorktreeContext, task: TaskRow) -> tuple[str, dict[str, str]]:
    """The results of the tasks that a step waited for; nothing for any other task.

    Returns:
        A text of bounded length, and variables; the file that they name has all.
    """
    if task["step"] is None:
        return "", {}
    with context.db.reading() as conn:
        earlier = dependencies.results_of_parents(conn, task["task_id"])
    folder = make_own_folder(context.project.logs_dir / "tasks" / task["task_id"], context.project.root)
    file: Path = folder / f"{task['fencing_token']}.results.json"
    with os.fdopen(open_private(file, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as output:
        json.dump([_entry(step) for step in earlier], output, ensure_ascii=False, indent=1)
    return _text(earlier), {VARIABLE: str(file)}


def _entry(step: ParentResult) -> Payload:
    return {**step, "step": step["step"] or step["title"]}


def _text(earlier: Sequence[ParentResult]) -> str:
    parts: list[str] = []
    room = _MOST_OF_ALL
    for step in earlier:
        name, output = step["step"] or step["title"], _output(step)
        end = "" if step["status"] == TaskStatus.COMPLETED else f" ({step['status']})"
        part = f"## {name}{end}\n{output}" if output else f"## {name}{end}"
        if len(part) > room:
            parts.append(f"{len(earlier) - len(parts)} more are in the file that {VARIABLE} names.")
            break
        room -= len(part)
        parts.append(part)
    if not parts:
        return ""
    return "\n\n".join(["These steps came before; what they changed is in your worktree. Their reports:", *parts])


def _output(step: ParentResult) -> str:
    result = step["result"] if isinstance(step["result"], dict) else {}
    output = result.get("output", result.get("text"))
    text = output if isinstance(output, str) else json.dumps(result, ensure_ascii=False) if result else ""
    return text if len(text) <= _MOST_OF_ONE else f"{text[: _MOST_OF_ONE - 1]}…"


# -- Submissions with steps: checked as one list of tasks, reported at the places where they were written


def flat(batch: Sequence[TaskSubmission]) -> list[TaskSubmission]:
    """Each submission, followed by its steps."""
    return [submission for item in batch for submission in (item, *item.steps)]


def regrouped(batch: Sequence[TaskSubmission], checked: Sequence[TaskSubmission]) -> list[TaskSubmission]:
    """The submissions with their steps again, from a list in the order of :func:`flat`."""
    rest = iter(checked)
    return [_with_steps(next(rest), [next(rest) for _ in item.steps]) for item in batch]


def _with_steps(item: TaskSubmission, steps: list[TaskSubmission]) -> TaskSubmission:
    return item.model_copy(update={"steps": steps}) if steps else item


def placed(batch: Sequence[TaskSubmission], errors: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Errors in the list of :func:`flat`, each with the number of its submission and the name of its step."""
    places = list(_places(batch))
    return [
        {**error, "index": places[error["index"]][0], "field": f"{places[error['index']][1]}{error['field']}"}
        for error in errors
    ]


def _places(batch: Sequence[TaskSubmission]) -> Iterator[tuple[int, str]]:
    for index, item in enumerate(batch):
        yield index, ""
        for step in item.steps:
            yield index, f"steps.{step.name}."
