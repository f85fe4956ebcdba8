"""The conversation: ask, use tools, send their results, until the model is done or a limit is reached."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from corral.core.redaction import redact, redact_values, remember_secret
from corral.runners.messages.api import Answer, Api, Event, RequestFailed
from corral.runners.messages.tools import Toolbox
from corral.runners.messages.usage import PRICES_OF, Spent, price_of

CUTS = 3
"""Answers in a row that may reach the limit of one answer."""
CUT = (
    "Your last answer was cut at its limit of {limit} tokens, and its tool calls were not made. Go on in smaller steps."
)
_LOGGED = 2000
"""Characters of a text in an event: the log shows the course of the work, the files show its result."""
_CACHED = {"cache_control": {"type": "ephemeral"}}

Emit = Callable[[Event], None]
Order = Mapping[str, Any]
"""The assignment: ``prompt``, ``system``, ``model``, ``tools`` (names), ``worktree``, ``api_key``, ``base_url``,
``max_tokens_per_answer``, ``silence_s``, the limits ``max_turns``, ``max_tokens`` and ``max_cost_usd``, and the files
``conversation``, which stores it, and ``resumes``, the one that it resumes.
"""


class Conversation:
    """One attempt at a task.

    Args:
        order: The assignment.
        emit: Gets every event.
        messages: Its messages so far; further ones are appended.
    """

    def __init__(self, order: Order, api: Api, toolbox: Toolbox, emit: Emit, messages: Messages) -> None:
        self._order = order
        self._api = api
        self._toolbox = toolbox
        self._emit = emit
        self._model = str(order["model"])
        self._messages = messages
        self._messages.append({"role": "user", "content": [_text(str(order["prompt"]))]})
        self._spent = Spent()
        self._cuts = 0
        self._last = ""

    def run(self) -> None:
        """Work until the end; the last event is the result."""
        self._emit({"type": "system", "subtype": "init", "model": self._model})
        ending: Event | None = None
        while ending is None:
            try:
                answer = self._api.ask(self._request())
            except RequestFailed as error:
                ending = {"is_error": True, "api_error_status": error.status, "result": str(error)}
                ending |= {"retry_at": error.retry_at} if error.retry_at else {}
                break
            self._record(answer)
            ending = self._next_step(answer)
            if ending is not None:
                ending["stop_reason"] = answer.stop_reason
        self._emit(self._result(ending))

    def _request(self) -> dict[str, Any]:
        order, tools = self._order, self._toolbox.definitions
        *before, last = self._messages.all
        content = [*last["content"][:-1], {**last["content"][-1], **_CACHED}]
        # The last answer of the model is the end of the conversation only while it pauses.
        final = {**last, "content": content} if last["role"] == "user" else last
        return {
            "model": self._model,
            "max_tokens": order["max_tokens_per_answer"],
            "system": [{**_text(str(order["system"])), **_CACHED}],
            "messages": [*before, final],
            **({"tools": [*tools[:-1], {**tools[-1], **_CACHED}]} if tools else {}),
        }

    def _record(self, answer: Answer) -> None:
        self._spent.add(self._model, answer.usage)
        texts = [str(block["text"]) for block in answer.content if block.get("type") == "text"]
        self._last = "\n".join(texts) or self._last
        message = {"id": answer.message_id, "model": self._model, "usage": dict(answer.usage)}
        content = [_shorten(block) for block in answer.content if block.get("type") in ("text", "tool_use")]
        event = {"type": "assistant", "message": {**message, "content": content}}
        self._emit({**event, "total_cost_usd": self._spent.cost_usd})

    def _next_step(self, answer: Answer) -> Event | None:
        """Prepare the next request; or the fields of the result, if this was the last."""
        reason = answer.stop_reason
        if reason in ("end_turn", "stop_sequence"):
            if answer.content:
                self._messages.append({"role": "assistant", "content": answer.content})
            return {"is_error": False, "result": self._last}
        if reason == "refusal":
            return {"subtype": "error_refusal", "is_error": True, "result": self._last}
        calls = [block for block in answer.content if block.get("type") == "tool_use"]
        if reason == "tool_use" and calls:
            self._messages.append({"role": "assistant", "content": answer.content})
            ending = self._limit_reached()
            if ending is None:
                self._use_tools(calls)
            return ending
        if reason == "pause_turn" and answer.content:
            self._messages.append({"role": "assistant", "content": answer.content})
            return self._limit_reached()
        if reason == "max_tokens":
            return self._limit_reached() or self._continue_after_cut(answer)
        return {"subtype": "error_during_execution", "is_error": True, "result": f"The answer ended with {reason}."}

    def _use_tools(self, calls: list[dict[str, Any]]) -> None:
        results = []
        for call in calls:
            output, is_error = self._toolbox.call(str(call["name"]), call["input"])
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": output or "[no output]"}
            results.append({**result, "is_error": True} if is_error else result)
            self._emit({"type": "user", "message": {"role": "user", "content": [_shorten(results[-1])]}})
        self._messages.append({"role": "user", "content": results})
        self._cuts = 0

    def _continue_after_cut(self, answer: Answer) -> Event | None:
        self._cuts += 1
        limit = self._order["max_tokens_per_answer"]
        if self._cuts > CUTS:
            message = f"{self._cuts} answers in a row reached their limit of {limit} tokens (max_tokens_per_answer)."
            return {"subtype": "error_during_execution", "is_error": True, "result": message}
        texts = [block for block in answer.content if block.get("type") == "text" and block["text"].strip()]
        self._messages.append({"role": "assistant", "content": texts or [_text("[cut]")]})
        self._messages.append({"role": "user", "content": [_text(CUT.format(limit=limit))]})
        return None

    def _limit_reached(self) -> Event | None:
        order, spent = self._order, self._spent
        reached = {
            "error_max_turns": (order["max_turns"], spent.turns),
            "error_max_budget_usd": (order["max_cost_usd"], spent.cost_usd),
            "error_max_tokens": (order["max_tokens"], spent.counted_tokens),
        }
        for subtype, (limit, used) in reached.items():
            if limit is not None and used >= limit:
                return {"subtype": subtype, "is_error": True, "result": self._last}
        return None

    def _result(self, ending: Event) -> Event:
        spent, unpriced = self._spent, price_of(self._model) is None
        warning = f"The price of {self._model} is not known (prices of {PRICES_OF}): its cost counts as 0."
        return {
            "type": "result",
            "subtype": "success",
            **ending,
            "num_turns": spent.turns,
            "total_cost_usd": spent.cost_usd,
            "modelUsage": spent.by_model(self._model),
            "warnings": [warning] if unpriced else [],
        }


def main(stdin: TextIO = sys.stdin, stdout: TextIO = sys.stdout) -> None:
    """Read an assignment, work on it, and write its events."""
    order = json.load(stdin)

    remember_secret(order["api_key"])

    def emit(event: Event) -> None:
        stdout.write(json.dumps(redact_values(event)) + "\n")
        stdout.flush()

    api = Api(
        api_key=order["api_key"], base_url=order["base_url"], silence_s=order["silence_s"], emit=emit
    )  # its commands see no key: it came by the standard input
    toolbox = Toolbox(Path(order["worktree"]), os.environ, order["tools"])
    try:
        messages = Messages.opened(order.get("conversation"), order.get("resumes"))
    except (OSError, ValueError) as error:
        emit({"type": "result", "subtype": "error_during_execution", "is_error": True, "result": str(error)})
        return
    Conversation(order, api, toolbox, emit, messages).run()


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _shorten(value: Any) -> Any:
    """A value without secrets and with its texts cut; in this order, since half a secret would not be recognised."""
    if isinstance(value, str):
        value = redact(value)
        return value if len(value) <= _LOGGED else f"{value[:_LOGGED]}… [{len(value)} characters]"
    if isinstance(value, dict):
        return {name: _shorten(item) for name, item in value.items()}
    return [_shorten(item) for item in value] if isinstance(value, list) else value


# -- The messages of a conversation, stored in a file of JSON lines so that a later attempt can resume it.
#
# A line is written for each message as it is added. A killed attempt leaves a conversation that may end with half a
# line or with unanswered tool calls: the next attempt omits those.

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
