"""The tool calls of a session from its client's transcript: those that no hook reported while no daemon ran.

Unexpected content is skipped, as in :mod:`corral.coordination.sessions.transcripts`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from corral.core.instants import UTC, parse

TAIL_BYTES = 4 * 1024 * 1024
"""Bytes of the file's end that are read."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool.

    Attributes:
        cwd: Where the session was.
        path: The file of an edit tool, as the model named it; empty for other tools.
        command: The command of a shell tool; empty for other tools.
        began: When the model asked for it.
        ended: When its result was written down; None while there is none.
        failed: Whether that was an error, or a refusal.
    """

    tool: str
    cwd: str
    path: str
    command: str
    began: datetime
    ended: datetime | None
    failed: bool


@dataclass(frozen=True)
class ToolCalls:
    """The calls that were not over at an instant, or came later; ``complete``: none is missing."""

    calls: tuple[ToolCall, ...] = ()
    complete: bool = False


def tool_calls(path: Path, since: datetime, *, of_subagent: bool = False) -> ToolCalls:
    """Read the tool calls of a transcript that were not over at an instant; a client without a prompt has no transcript.

    Args:
        of_subagent: Whether the transcript is a subagent's; in a session's own, the entries of subagents are skipped.
    """
    try:
        tail = _tail(path)
    except FileNotFoundError:
        return ToolCalls(complete=True)
    if tail is None:
        return ToolCalls()
    data, whole = tail
    first: datetime | None = None
    uses: dict[str, tuple[datetime, str, dict[str, Any]]] = {}
    results: dict[str, tuple[datetime, bool]] = {}
    for line in data.splitlines():
        # Most of a long transcript is tool output: only lines that may hold calls are parsed.
        if first is not None and b'"tool_use"' not in line and b'"tool_result"' not in line:
            continue
        for at, cwd, part in _parts(line, of_subagent):
            first = first or at
            if part["type"] == "tool_use":
                uses[str(part["id"])] = (at, cwd, part)
            elif part["type"] == "tool_result":
                results[str(part["tool_use_id"])] = (at, bool(part.get("is_error")))
    calls = []
    for use_id, (began, cwd, part) in uses.items():
        ended, failed = results.get(use_id, (None, False))
        if ended is None or ended > since:
            calls.append(_call(part, cwd, began, ended, failed))
    return ToolCalls(tuple(calls), complete=whole or (first is not None and first <= since))


def _call(part: dict[str, Any], cwd: str, began: datetime, ended: datetime | None, failed: bool) -> ToolCall:
    arguments = part.get("input")
    arguments = arguments if isinstance(arguments, dict) else {}
    path = arguments.get("file_path") or arguments.get("notebook_path")
    command = arguments.get("command")
    return ToolCall(
        tool=str(part.get("name")),
        cwd=cwd,
        path=path if isinstance(path, str) else "",
        command=command if isinstance(command, str) else "",
        began=began,
        ended=ended,
        failed=failed,
    )


def _parts(line: bytes, of_subagent: bool) -> Iterator[tuple[datetime, str, dict[str, Any]]]:
    """Yield each part of an entry of the conversation, with its instant and folder."""
    try:
        entry: Any = json.loads(line)
        if entry["type"] not in ("user", "assistant") or bool(entry.get("isSidechain")) != of_subagent:
            return
        at, content = parse(entry["timestamp"]).astimezone(UTC), entry["message"]["content"]
        parts = [{"type": "text"}] if isinstance(content, str) else content
        needed = {"tool_use": "id", "tool_result": "tool_use_id"}
        whole = [part for part in parts if part["type"] not in needed or part[needed[part["type"]]]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    cwd = entry.get("cwd")
    for part in whole:
        yield at, cwd if isinstance(cwd, str) else "", part


def _tail(path: Path) -> tuple[bytes, bool] | None:
    """The end of a file, and whether that is all of it; None if it is no file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe waits for its writer
            return None
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL_BYTES))
            return file.read(TAIL_BYTES), size <= TAIL_BYTES
    except FileNotFoundError:
        raise
    except (OSError, ValueError):  # ValueError: a path that none can be
        return None
