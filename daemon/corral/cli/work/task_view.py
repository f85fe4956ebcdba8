"""A task with all its details, as text."""

from __future__ import annotations

from typing import Any

from corral.cli.terminal.output import echo, fact, paint, state, verification
from corral.models.visible import one_line


def show_task(task: dict[str, Any]) -> None:
    """Print a task with all its details."""
    echo(f"{paint(one_line(task['title']), 'bold')}  {state(task['outcome'])}")
    rows = [("id", task["task_id"]), ("priority", task["priority"]), ("attempts", task["attempts"])]
    rows += [
        ("agent", task["agent"] or _assigned(task)),
        ("thread", task["thread_id"]),
        ("worktree", task["worktree"]),
        ("branch", task["branch"]),
    ]
    if task["error_code"]:
        rows.append(("error", f"{task['error_code']}: {task['error_message']}"))
    rows.append(("delay", task.get("delay")))
    usage = task["usage"]
    if usage["turns"]:
        tokens = f"{usage['input_tokens']} in, {usage['output_tokens']} out"
        rows.append(("usage", f"{tokens}, {usage['turns']} turns, ${usage['cost_usd']:.4f}"))
    for name, value in rows:
        if value is not None:
            fact(name, value, 9)
    _attempts(task["attempt_history"])
    _merge(task["merge"])
    for event in task.get("history", [])[-12:]:
        echo(paint(f"  {event['at'][11:23]}  {event['kind']}", "dim"))


def _assigned(task: dict[str, Any]) -> str | None:
    """The agent chosen for the task's required capabilities at its last start."""
    attempts = task["attempt_history"]
    return attempts[-1]["agent"] if attempts else None


def _attempts(attempts: list[dict[str, Any]]) -> None:
    """The outcome of each attempt, where there was more than one."""
    for attempt in attempts if len(attempts) > 1 else ():
        who = ", ".join(filter(None, (attempt["agent"], attempt["model"], attempt["branch"])))
        why = f" ({attempt['error_code']})" if attempt["error_code"] else ""
        fact(f"attempt {attempt['number']}", f"{attempt['outcome'] or 'running'}{why}  {who}".rstrip(), 9)


def _merge(merge: dict[str, Any] | None) -> None:
    if merge is None:
        return
    echo(f"  {'merge':<9} {state(merge['state'])}  {merge['merge_id']}")
    if merge["reason"]:
        fact("", merge["reason"], 9)
    if merge["landed_sha"]:
        echo(f"  {'landed':<9} {merge['landed_sha'][:12]}")
    receipt = merge["receipt"]
    if receipt:
        echo(f"  {'verified':<9} {verification(receipt)}")
