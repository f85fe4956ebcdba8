"""A task with all its details, as text, and a task as it goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from corral.client.connection import Client, segment
from corral.core.tree import indented
from corral.core.visible import log_text, one_line
from corral.faces.cli.terminal.output import (
    coloured,
    echo,
    fact,
    for_programs,
    moment,
    paint,
    printed,
    state,
    verification,
)

ROUND_S = 20.0
"""Length of a long poll, seconds."""
_LONGEST = 2000
"""Characters of an input or a result; the whole is in the JSON."""
_LAST_EVENTS = 12
_MOST_NAMED = 10
"""Other tasks, or claims."""
_AT_THE_BEGINNING = ("priority", "agent", "template", "delay")


def follow_task(speaker: Client, task_id: str) -> None:
    """Print the events and the output of a task, those that were first, until it has ended and landed or come back.

    As JSON each is a line of its own; the last is ``{"kind": "ended", "task": …}`` with all details.
    """
    task = speaker.request("GET", _path(task_id, "detail"))
    if not for_programs():
        _heading(task)
        for name in _AT_THE_BEGINNING:
            if task[name] is not None:
                fact(name, task[name], 9)
    place, is_over = None, False
    while not is_over:
        query = {"place": place, "wait_s": ROUND_S}
        part = speaker.request(
            "GET", _path(task["task_id"], "follow"), query=query, timeout_s=ROUND_S + 20, is_poll=True
        )
        for entry in part["entries"]:
            if not printed(entry, indent=None):
                _show_entry(entry)
        sys.stdout.flush()
        place, is_over = part["next"], part["complete"]
    task = speaker.request("GET", _path(task["task_id"], "detail"))
    if not printed({"kind": "ended", "task": task}, indent=None):
        show_task({**task, "history": []})


def _path(task_id: str, view: str) -> str:
    return f"/tasks/{segment(task_id)}/{view}"


def _show_entry(entry: dict[str, Any]) -> None:
    if entry["kind"] == "output":
        print(log_text(entry["text"], colours=coloured()), end="" if entry["text"].endswith("\n") else "\n")
    else:
        echo(paint(_event(entry), "dim"))


def _event(event: dict[str, Any]) -> str:
    """An event in one line, with what it says beside its kind."""
    facts = [f"{name} {_text(value)}" for name, value in event["data"].items() if value not in (None, "", [], {})]
    return "  ".join(filter(None, (f"  {event['at'][11:23]}", event["kind"], one_line(", ".join(facts))[:200])))


def show_task(task: dict[str, Any], *, changed: str | None = None) -> None:
    """Print a task with all its details.

    Args:
        changed: How much it changed, in one line.
    """
    _heading(task)
    rows: list[tuple[str, Any]] = [("id", task["task_id"]), ("type", task["task_type"]), ("template", task["template"])]
    rows += [
        ("priority", task["priority"]),
        ("attempts", task["attempts"]),
        ("agent", task["agent"] or _assigned(task)),
    ]
    rows += [(name, _text(task[field]) if task[field] else None) for name, field in _GIVEN]
    rows += [(name, ", ".join(values) or None) for name, values in _bonds(task)]
    rows += [(name, task[field]) for name, field in (("thread", "thread_id"), ("worktree",) * 2, ("branch",) * 2)]
    rows += [(name, f"{moment(task[field])} UTC" if task[field] else None) for name, field in _INSTANTS]
    if task["error_code"]:
        rows.append(("error", f"{task['error_code']}: {task['error_message']}"))
    rows += [("delay", task.get("delay")), ("retry at", _retry(task)), ("progress", task["progress"])]
    rows += [("usage", _usage(task) or None), ("changes", changed)]
    result = dict(task["result"]) if isinstance(task["result"], dict) else {}
    answer = result.pop("text", None)
    rows += [("answer", _text(answer) if answer else None), ("result", _text(result) if result else None)]
    processes = result.get("left_processes")
    rows.append(("note", f"Corral ended what it had left running: {', '.join(processes)}" if processes else None))
    shared = ", ".join(f"{key} (version {version})" for key, version in task["state"].items())
    rows.append(("state", shared or None))
    for name, value in rows:
        if value is not None:
            fact(name, value, 9)
    show_steps(task["steps"])
    _attempts(task["attempt_history"])
    _merge(task["merge"])
    for event in task.get("history", [])[-_LAST_EVENTS:]:
        echo(paint(_event(event), "dim"))


_GIVEN = (
    ("command", "command"),
    ("prompt", "prompt"),
    ("about", "description"),
    ("input", "input_data"),
    ("metadata", "metadata"),
    ("requires", "agent_requirements"),
    ("limits", "limits"),
)
_INSTANTS = (("submitted", "created_at"), ("started", "started_at"), ("ended", "completed_at"))


def _bonds(task: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The tasks that it has to do with, and what it keeps others from."""
    yield "combine", [f"{task['combine']} of {task['agents']} agents"] if task["agents"] else []
    yield "leader", [task["parent_task_id"][:8]] if task["parent_task_id"] else []
    yield "step", [task["step"]] if task["step"] else []
    steps = {step["task_id"] for step in task["steps"]}  # show_steps prints them
    for name, field in (("leads", "followers"), ("after", "wait_for")):
        yield name, _short([task_id for task_id in task[field] if task_id not in steps])
    yield "claims", task["claims"][:_MOST_NAMED]


def _short(task_ids: list[str]) -> list[str]:
    more = len(task_ids) - _MOST_NAMED
    return [*(task_id[:8] for task_id in task_ids[:_MOST_NAMED]), *([f"{more} more"] if more > 0 else [])]


def _retry(task: dict[str, Any]) -> str | None:
    """When it starts again at the earliest, after an attempt that failed."""
    if task["status"] != "pending" or not task["not_before_at"] or not task["attempt_history"]:
        return None
    return f"{moment(task['not_before_at'])} UTC; {task['attempts']} of {task['max_retries'] + 1} attempts are used"


def _heading(task: dict[str, Any]) -> None:
    echo(f"{paint(one_line(task['title']), 'bold')}  {state(task['outcome'])}")


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _usage(task: dict[str, Any]) -> str:
    """The tokens, the time and the memory that its attempts used."""
    usage, parts = task["usage"], []
    if usage["turns"]:
        parts.append(f"{usage['input_tokens']} in, {usage['output_tokens']} out, {usage['turns']} turns")
        parts.append(f"${usage['cost_usd']:.4f}")
    if task["duration_s"]:
        parts.append(f"{task['duration_s']:.1f} s")
    if task["memory_mb"]:
        parts.append(f"{task['memory_mb']} MB")
    return ", ".join(parts)


def _assigned(task: dict[str, Any]) -> str | None:
    """The agent chosen for the task's required capabilities at its last start."""
    attempts = task["attempt_history"]
    return attempts[-1]["agent"] if attempts else None


def _attempts(attempts: list[dict[str, Any]]) -> None:
    """The outcome of each attempt, where there was more than one."""
    for attempt in attempts if len(attempts) > 1 else ():
        worker = ", ".join(filter(None, (attempt["agent"], attempt["model"], attempt["branch"])))
        why = f" ({attempt['error_code']})" if attempt["error_code"] else ""
        fact(f"attempt {attempt['number']}", f"{attempt['outcome'] or 'running'}{why}  {worker}".rstrip(), 9)


def show_steps(steps: list[dict[str, Any]]) -> None:
    """The steps of a task as a tree."""
    for depth, step in indented(steps):
        indent = "  " * (depth + 1)
        echo(f"{indent}{one_line(step['step'])}  {state(step['outcome'])}  {paint(step['task_id'][:8], 'dim')}")


def _merge(merge: dict[str, Any] | None) -> None:
    if merge is None:
        return
    echo(f"  {'merge':<9} {state(merge['outcome'])}  {merge['merge_id']}")
    if merge["reason"]:
        fact("", merge["reason"], 9)
    if merge["landed_sha"]:
        taken_back = f", and taken back by {merge['reverted_by'][:8]}" if merge["reverted_by"] else ""
        echo(f"  {'landed':<9} {merge['landed_sha'][:12]}{taken_back}")
    receipt = merge["receipt"]
    if receipt:
        echo(f"  {'verified':<9} {verification(receipt)}")
