"""The messages of a conversation, stored in a file of JSON lines so that a later attempt can resume it.

A line is written for each message as it is added. A killed attempt leaves a conversation that may end with half a line or with
unanswered tool calls: the next attempt omits those.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TextIO

Message = dict[str, Any]


class Messages:
    """The messages of one conversation, the oldest first.

    Args:
        before: The messages of the conversation that it resumes.
        file: The file that stores them; None: none does.
    """

    def __init__(self, before: list[Message], file: TextIO | None = None) -> None:
        self.all: list[Message] = []
        self._file = file
        for message in before:
            self.append(message)

    @classmethod
    def opened(cls, keep_in: str | None, go_on_in: str | None) -> Messages:
        """The messages of a new conversation, or a copy of those of another one to resume.

        Raises:
            OSError: A file cannot be read or written.
            ValueError: The other one is none.
        """
        before = read(Path(go_on_in)) if go_on_in else []
        if keep_in is None:
            return cls(before)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(keep_in, flags, 0o600)
        return cls(before, os.fdopen(descriptor, "w", encoding="utf-8"))

    def append(self, message: Message) -> None:
        """Add a message, and store it."""
        self.all.append(message)
        if self._file is not None:
            self._file.write(json.dumps(message) + "\n")
            self._file.flush()


def read(file: Path) -> list[Message]:
    """The messages of a conversation that a user message may follow.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no conversation.
    """
    *whole, _partial = file.read_text(encoding="utf-8").split("\n")
    messages: list[Message] = [json.loads(line) for line in whole]
    if not all(isinstance(message, dict) and {"role", "content"} <= message.keys() for message in messages):
        raise ValueError(f"{file.name} is no conversation")
    if messages and messages[-1]["role"] == "assistant" and _calls_tools(messages[-1]):
        messages.pop()
    if not messages:
        raise ValueError(f"{file.name} is empty")
    return messages


def _calls_tools(message: Message) -> bool:
    return any(block.get("type") == "tool_use" for block in message["content"])
