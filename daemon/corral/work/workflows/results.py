"""The results of earlier steps, for a step that waited for them: as text for a prompt, and as a file for a command."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from corral.config.links import make_own_folder
from corral.core.payload import Payload
from corral.core.states import TaskStatus
from corral.runners.process import open_private
from corral.store.rows.tasks import ParentResult, TaskRow
from corral.work.tasks.store import dependencies
from corral.work.worktrees.allocation import WorktreeContext

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
