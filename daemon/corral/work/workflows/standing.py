"""The state of a task that is made of steps, derived from theirs, in whatever order they changed.

It waits until each step has ended and what that changed has landed or come back: a step that fails ends those that wait for
it, and no other one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection

from corral.core.outcomes import of_task
from corral.core.payload import Payload
from corral.core.states import TaskStatus
from corral.store.rows.tasks import ParentTask
from corral.work.tasks.outlook import Outlook, outlook
from corral.work.tasks.store import dependencies

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
