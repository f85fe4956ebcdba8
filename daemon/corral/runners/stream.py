"""Parse ``claude --output-format stream-json``. Pure: bytes in, facts out."""

from __future__ import annotations

import json
import re
from collections import deque
from typing import Any

from corral.core.redaction import redact
from corral.runners.protocol import ToolCall, Usage

Event = dict[str, Any]
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_LINE = 300
_TEXT = 10_000
_LONGEST_EVENT = 32 << 20
"""Maximum size of a line, bytes: no event is longer, and an endless line must not fill the memory."""
_SHOWN_ARGUMENTS = ("file_path", "notebook_path", "command", "pattern", "skill", "description", "url", "query")
_NOT_PROGRESS = frozenset({"api_retry", "status", "hook_started"})


def plain(text: str) -> str:
    """A text without secrets, control and direction characters; its lines stay."""
    return redact(_UNPRINTABLE.sub("", _ANSI.sub("", text).replace("\r", "\n")))


def one_line(text: str) -> str:
    """Like :func:`plain`, on one line, cut."""
    folded = " ".join(plain(text).split())
    return folded if len(folded) <= _LINE else folded[: _LINE - 1] + "…"


def user_message(text: str) -> bytes:
    """The line that sends the client a user message."""
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode() + b"\n"


class Transcript:
    """The state of one client, computed from its output.

    The client repeats an answer's event for each block in it, reports exact usage only in ``result`` (of the whole
    session so far, except for the turns), and sends one ``result`` per turn: a reporting background agent starts
    another turn.

    Attributes:
        usage: So far; a lower bound until the turn ends.
        progress: The last line for a person.
        result: The last ``result`` event; None while a turn is running.
        warnings: Parts that failed to load, one line each.
        strays: The last lines that are not events, such as its standard error.
        has_answered: Whether the model has answered at all; an error of the API in its place is no answer.

    Args:
        root: The folder that paths are shown below.
        before: The usage of the conversation before this client resumed it.
    """

    def __init__(self, *, root: str = "", before: Usage | None = None) -> None:
        self.usage = Usage()
        self._before = before or Usage()
        self.progress: str | None = None
        self.result: Event | None = None
        self.warnings: list[str] = []
        self.strays: deque[str] = deque(maxlen=5)
        self.model: str | None = None
        self.has_answered = False
        self.background: list[Event] = []
        self._root = root.rstrip("/") + "/"
        self._partial = b""
        self._settled = Usage()
        self._open_calls: dict[str, Event] = {}
        self._tool_calls: list[ToolCall] = []
        self._answers: dict[str, Usage] = {}

    def feed(self, data: bytes) -> bool:
        """Process output of the client; returns whether it shows progress."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _LONGEST_EVENT:
            self.strays.append(f"a line of more than {_LONGEST_EVENT >> 20} MB, which is no event")
            self._partial = b""
        return sum(self._take(line) for line in lines if line.strip()) > 0

    def take_tool_calls(self) -> list[ToolCall]:
        """The tool calls that ended since they were last taken."""
        taken, self._tool_calls = self._tool_calls, []
        return taken

    def final_text(self) -> str:
        """The last turn's final text, cut, without secrets."""
        text = (self.result or {}).get("result")
        return plain(text)[:_TEXT] if isinstance(text, str) else ""

    def _take(self, line: bytes) -> bool:
        try:
            return self._take_event(_parse(line))
        except (ValueError, TypeError, AttributeError, RecursionError):
            # Standard error goes to the same file: it can contain any text, and split an event.
            self.strays.append(one_line(line.decode(errors="replace")))
            return True

    def _take_event(self, event: Event) -> bool:
        kind, subtype = event.get("type"), event.get("subtype")
        if kind == "assistant":
            self._on_answer(event)
        elif kind == "user":
            self._on_tool_result(event)
        elif kind == "result":
            self._on_turn_end(event)
        elif subtype == "init":
            self._on_start(event)
        elif subtype == "background_tasks_changed":
            self.background = [task for task in event.get("tasks") or [] if isinstance(task, dict)]
        elif subtype == "api_retry":
            status = event.get("error_status")
            answered = "no answer" if status is None else f"status {status}"
            self.progress = f"waiting for the API ({answered}, try {event.get('attempt')})"
        return not (kind == "system" and subtype in _NOT_PROGRESS)

    def _on_start(self, event: Event) -> None:
        self.result = None
        self.model = event.get("model")
        problems = [f"{e.get('plugin')}: {e.get('message')}" for e in event.get("plugin_errors") or []]
        problems += [
            f"MCP server {server.get('name')} failed"
            for server in event.get("mcp_servers") or []
            if server.get("status") == "failed"
        ]
        self.warnings = [one_line(problem) for problem in problems]

    def _on_answer(self, event: Event) -> None:
        message = event.get("message") or {}
        used = message.get("usage") or {}
        read = _count(used, "input_tokens") + _count(used, "cache_creation_input_tokens")
        turn = 0 if event.get("parent_tool_use_id") else 1
        self.has_answered = self.has_answered or read + _count(used, "output_tokens") > 0
        self._answers[str(message.get("id"))] = Usage(read, _count(used, "output_tokens"), 0.0, turn)
        self.usage = Usage(
            self._settled.input_tokens + sum(answer.input_tokens for answer in self._answers.values()),
            self._settled.output_tokens + sum(answer.output_tokens for answer in self._answers.values()),
            self._settled.cost_usd,
            self._settled.turns + sum(answer.turns for answer in self._answers.values()),
        )
        for block in message.get("content") or []:
            self.progress = self._line_of(block) or self.progress
            if block.get("type") == "tool_use":
                self._open_calls[str(block.get("id"))] = block

    def _on_tool_result(self, event: Event) -> None:
        content = (event.get("message") or {}).get("content")
        for block in content if isinstance(content, list) else ():
            call = self._open_calls.pop(str(block.get("tool_use_id")), None)
            if block.get("type") == "tool_result" and call is not None:
                arguments = call.get("input")
                error = one_line(_text_of(block.get("content"))) if block.get("is_error") else None
                use_id, tool = str(call.get("id")), str(call.get("name"))
                self._tool_calls.append(ToolCall(use_id, tool, arguments if isinstance(arguments, dict) else {}, error))

    def _line_of(self, block: Event) -> str | None:
        return (
            one_line(str(block.get("text"))) or None if block.get("type") == "text" else _tool_line(block, self._root)
        )

    def _on_turn_end(self, event: Event) -> None:
        self.result = event
        models = list((event.get("modelUsage") or {}).values())
        read = sum(_count(m, "inputTokens") + _count(m, "cacheCreationInputTokens") for m in models)
        # A client that resumes a conversation may count its earlier usage too; not every version does.
        before = self._before if read - self._before.input_tokens >= self.usage.input_tokens else Usage()
        self._answers.clear()
        self._open_calls.clear()
        self._settled = Usage(
            read - before.input_tokens,
            max(0, sum(_count(m, "outputTokens") for m in models) - before.output_tokens),
            max(0.0, float(event.get("total_cost_usd") or 0.0) - before.cost_usd),
            self._settled.turns + _count(event, "num_turns"),
        )
        self.usage = self._settled


def readable(text: str) -> str:
    """Whole lines of a client's output as a person reads them.

    Its texts; a line for each tool call, tool error, start and end of a turn; and what is no event.
    """
    shown = list[str]()
    for line in text.splitlines():
        try:
            shown += _lines_of(_parse(line.encode()))
        except (ValueError, TypeError, AttributeError, RecursionError):
            stray = plain(line)
            shown.append(stray if len(stray) <= _TEXT else f"{stray[:_TEXT]}…")
    return "".join(f"{line.rstrip()}\n" for line in shown if line.strip())


def _lines_of(event: Event) -> list[str]:
    kind = event.get("type")
    if kind == "result":
        return [_turn_line(event)]
    if event.get("subtype") == "init":
        return [one_line(f"-- turn started, model {event.get('model')}")]
    if kind not in ("assistant", "user"):
        return []
    content = (event.get("message") or {}).get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if kind == "user":
        return [_error_line(block) for block in blocks if block.get("type") == "tool_result" and block.get("is_error")]
    lines = [plain(str(block.get("text"))) if block.get("type") == "text" else _tool_line(block) for block in blocks]
    return [
        line if block.get("type") == "text" else f"> {line}" for block, line in zip(blocks, lines, strict=True) if line
    ]


def _turn_line(result: Event) -> str:
    seconds, cost = float(result.get("duration_ms") or 0) / 1000, float(result.get("total_cost_usd") or 0.0)
    ended = "failed" if result.get("is_error") else "ended"
    return one_line(f"-- turn {ended}: {_count(result, 'num_turns')} answers, {seconds:.1f} s, ${cost:.4f} so far")


def _error_line(block: Event) -> str:
    content = block.get("content")
    if isinstance(content, list):
        content = " ".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return one_line(f"! {content}")


def _text_of(content: Any) -> str:
    """The text of a tool's result, which is a text or a list of blocks."""
    if isinstance(content, list):
        return " ".join(str(block.get("text") or "") for block in content if isinstance(block, dict))
    return str(content or "")


def _tool_line(block: Event, root: str = "") -> str | None:
    if block.get("type") != "tool_use":
        return None
    arguments = block.get("input") or {}
    shown = next((str(arguments[name]) for name in _SHOWN_ARGUMENTS if arguments.get(name)), "")
    return one_line(f"{block.get('name')} {shown.removeprefix(root)}")


def _parse(line: bytes) -> Event:
    event = json.loads(line)
    if not isinstance(event, dict):
        raise ValueError("an event is an object")
    return event


def _count(usage: Event, name: str) -> int:
    return int(usage.get(name) or 0)
