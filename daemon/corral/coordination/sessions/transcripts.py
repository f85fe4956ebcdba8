"""What no hook reports when a session is killed: its last words, and when its model last answered, from its client's transcript.

A transcript is a file of JSON lines. Unexpected content is skipped: it is another program's file.
"""

from __future__ import annotations

import json
import os
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from corral.core.instants import UTC, parse

TAIL_BYTES = 256 * 1024
"""Bytes read from the end of the file."""
INTERRUPTED = "[Request interrupted by user"
"""How the entry begins that a client writes when its person breaks a turn off; no hook tells of that."""
HELD = "Stop hook feedback"
"""How the entry begins that a client writes when a Stop hook holds the session: the model goes on."""
NEVER = datetime.fromtimestamp(0, UTC)
WORDS = 4000
"""Characters kept of the last words, counted from the end."""


def last_words(path: str | None) -> str | None:
    """The last words of the model, without its thoughts and its tools' results; None if they cannot be found.

    Args:
        path: As the client's hooks name it; None or relative: there is none.
    """
    for line in reversed(_tail(path).splitlines()):
        if words := _text_of(line):
            return words[-WORDS:]
    return None


def answered_at(path: str | None) -> datetime | None:
    """When the model began its latest answer: what it was told before had reached it.

    Returns:
        ``NEVER`` where it has not answered; None where nobody knows.
    """
    if path is None or not Path(path).is_absolute():
        return None
    answers = [answer for line in _tail(path).splitlines() if (answer := _answer(line))]
    if not answers:
        is_whole = not Path(path).exists() or Path(path).stat().st_size <= TAIL_BYTES
        return NEVER if is_whole else None
    # The parts of an answer are entries of their own, and a tool may run before the last of them.
    return min(at for message_id, at in answers if message_id == answers[-1][0])


def _answer(line: bytes) -> tuple[str, datetime] | None:
    """The message that an entry is a part of, and when it came; None where it is no answer of the model."""
    try:
        entry: Any = json.loads(line)
        if entry["type"] != "assistant" or entry.get("isSidechain") or entry.get("isApiErrorMessage"):
            return None
        return str(entry["message"]["id"]), parse(entry["timestamp"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def written_at(path: str | None) -> datetime | None:
    """When the client last wrote to a transcript; None where there is none."""
    try:
        return datetime.fromtimestamp(Path(path).stat().st_mtime, UTC) if path and Path(path).is_absolute() else None
    except (OSError, ValueError, OverflowError):
        return None


def is_at_rest(path: str | None) -> bool:
    """Whether a transcript's last entry ends a turn: of the model or the person, or with an error of the API."""
    for line in reversed(_tail(path).splitlines()):
        if (ends := _ends_turn(line)) is not None:
            return ends
    return False


def _ends_turn(line: bytes) -> bool | None:
    """Whether an entry is the end of a turn; None where it is no part of the conversation."""
    try:
        entry: Any = json.loads(line)
        if entry["type"] not in ("user", "assistant") or entry.get("isSidechain"):
            return None
        if entry["type"] == "assistant":
            return bool(entry.get("isApiErrorMessage") or entry["message"].get("stop_reason") == "end_turn")
        content = entry["message"]["content"]
        parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        if entry.get("isMeta"):
            return False if any(part.startswith(HELD) for part in parts) else None
        return any(part.startswith(INTERRUPTED) for part in parts)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _tail(path: str | None) -> bytes:
    """The end of a file; empty where there is none. A relative path is refused: it is relative to another folder."""
    try:
        if path is None or not Path(path).is_absolute() or not stat.S_ISREG(Path(path).stat().st_mode):
            return b""  # opening a pipe would wait for its writer
        with Path(path).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
    except (OSError, ValueError):  # ValueError: an impossible path
        return b""


def _text_of(line: bytes) -> str:
    try:
        entry: Any = json.loads(line)
        message = entry["message"] if entry["type"] == "assistant" and not entry.get("isSidechain") else {}
        content = message.get("content", [])
        return "\n".join(part["text"] for part in content if part["type"] == "text").strip()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
