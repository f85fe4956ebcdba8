"""The last words of a session, as its client's transcript has them: those of one that is killed are told by no hook.

A transcript is a file of JSON lines. What is not as expected is passed over: it is another program's file.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

TAIL_BYTES = 256 * 1024
"""Of the file's end that are read."""
WORDS = 4000
"""Characters that are kept, the last ones."""


def last_words(path: str | None) -> str | None:
    """What the model said last, without its thoughts and its tools' results; None if that cannot be found.

    Args:
        path: As the client's hooks name it; None or relative: there is none.
    """
    if path is None or not Path(path).is_absolute():
        return None
    for line in reversed(_tail(path).splitlines()):
        if said := _said(line):
            return said[-WORDS:]
    return None


def _tail(path: str) -> bytes:
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # to open a pipe waits for its writer
            return b""
        with Path(path).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
    except (OSError, ValueError):  # ValueError: a path that none can be
        return b""


def _said(line: bytes) -> str:
    try:
        entry: Any = json.loads(line)
        message = entry["message"] if entry["type"] == "assistant" and not entry.get("isSidechain") else {}
        content = message.get("content", [])
        return "\n".join(part["text"] for part in content if part["type"] == "text").strip()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
