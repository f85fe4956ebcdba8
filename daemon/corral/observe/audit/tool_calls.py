"""Tool calls of sessions and workers, for the audit: what was called with what, and how it ended. Never the content of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from corral.coordination.sessions import tokens
from corral.observe.audit.trail import DENIED, FAILED, OK, AuditTrail
from corral.runners.protocol import ToolCall
from corral.store.rows.tasks import TaskRow

CALLED = "called"
"""The ``status`` of a call whose end is not known."""
CONTENT = frozenset({
    "content", "old_string", "new_string", "new_source", "edits", "file_text", "old_str", "new_str", "body", "body_md",
    *tokens.ARGUMENTS,
})  # fmt: skip
"""Parameters that are the content of files and messages, or a token: only their size is kept."""
_TOKEN = re.compile(rf"\b({'|'.join(tokens.ARGUMENTS)})=[^&\s\"']+")
"""A token in a text, as an address of a resource has it."""
OURS = "mcp__plugin_corral_corral__"
"""Begins the client's names of our own tools."""
LONGEST_COUNT = 6
"""Digits of a number of calls."""
LONGEST = 4096
"""Characters of a parameter that wait for the writer."""


def note(
    trail: AuditTrail,
    at: datetime,
    tool: str,
    arguments: object,
    *,
    session_id: str,
    task_id: str | None = None,
    use_id: str = "",
    status: str = OK,
    error: str = "",
) -> None:
    """Note a tool call, unless it was noted before: hooks and a worker's output report the same calls.

    Args:
        arguments: Its input, as the client has it.
        use_id: The client's id of the call.
        error: Why it failed or was denied.
    """
    if tool and trail.is_new(use_id):
        result = {"status": status, **({"error": _text_of(error)} if error else {})}
        trail.note(
            at,
            f"tool.{tool}",
            session_id=session_id,
            task_id=task_id,
            parameters=_parameters(arguments),
            result=result,
        )


def note_event(trail: AuditTrail, at: datetime, session_id: str, payload: Mapping[str, Any], denial: str) -> None:
    """Note the tool calls that a hook event reports.

    Args:
        session_id: The session, or the subagent, that acts.
        payload: The event as the client sent it.
        denial: Why the answer refuses the call; empty: it does not.
    """
    name = payload.get("hook_event_name")
    if name == "PostToolBatch":
        _note_batch(trail, at, session_id, payload)
    elif name == "PreToolUse" and denial:
        _note_one(trail, at, session_id, payload, DENIED, denial)
    elif name == "PostToolUse":
        _note_one(trail, at, session_id, payload, OK, "")
    elif name == "PostToolUseFailure":
        _note_one(trail, at, session_id, payload, FAILED, _text(payload, "error"))


def _note_batch(trail: AuditTrail, at: datetime, session_id: str, payload: Mapping[str, Any]) -> None:
    """Note the calls of a turn that no other event reported; calls of our own tools are noted with their answers."""
    listed, count = payload.get("tool_calls"), _text(payload, "calls")
    calls = [call for call in listed if isinstance(call, Mapping)] if isinstance(listed, list) else []
    for call in calls:
        if not _text(call, "tool_name").startswith(OURS):
            _note_one(trail, at, session_id, call, CALLED, "")
    if count.isdecimal() and len(count) < LONGEST_COUNT and (left_out := int(count) - len(calls)) > 0:
        trail.note(
            at, "tool.left_out", session_id=session_id, parameters={"count": left_out}, result={"status": CALLED}
        )


def note_worker(trail: AuditTrail, task: TaskRow, calls: Iterable[ToolCall], now: datetime) -> None:
    """Note the tool calls of a task's worker, as its runner reports them."""
    for call in calls:
        note(
            trail,
            now,
            call.tool,
            call.arguments,
            session_id=task["session_id"] or task["task_id"],
            task_id=task["task_id"],
            use_id=call.use_id,
            status=OK if call.error is None else FAILED,
            error=call.error or "",
        )


def _note_one(
    trail: AuditTrail, at: datetime, session_id: str, call: Mapping[str, Any], status: str, error: str
) -> None:
    note(
        trail,
        at,
        _text(call, "tool_name"),
        call.get("tool_input"),
        session_id=session_id,
        use_id=_text(call, "tool_use_id"),
        status=status,
        error=error,
    )


def _parameters(arguments: object) -> dict[str, Any]:
    """The input of a tool, without the content of files, and no longer than a line may keep."""
    if not isinstance(arguments, Mapping):
        return {}
    parameters: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in CONTENT:
            parameters[name] = size_of(value)
        elif value != "":  # the client sends an empty text for a missing field
            parameters[name] = _text_of(value) if isinstance(value, str) else value
    return parameters


def _text_of(text: str) -> str:
    return _TOKEN.sub(r"\1=[redacted]", text)[:LONGEST]


def size_of(content: Any) -> str:
    """The size of a text or a list, as a text; of nothing, and of what has none, an empty one."""
    if not content or not isinstance(content, (str, list, dict)):
        return ""
    return f"({len(content)} {'characters' if isinstance(content, str) else 'items'})"


def _text(mapping: Mapping[str, Any], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""
