"""A stage: a scripted Messages API on loopback, for the real Claude Code client.

What the model does is written in the prompt, as a fenced block that :func:`script` makes from these steps:

* ``{"tool": NAME, "input": {...}}`` calls a tool, with ``"text"`` after saying that; ``"if_denied": [steps]`` is played
  if that call came back as an error
* ``{"together": [tool steps]}`` calls several tools in one response
* ``{"text": "..."}`` says something and ends the turn
* ``{"sleep": SECONDS}`` waits before the next step
* any tool or text step may carry ``"usage": {"input_tokens": 5, ...}``, which its answer then reports

``$CWD`` in any string is the session's working directory. A request without a script is answered ``done``. The place in
the script is the number of tool results since the prompt, so that the server holds no state per session, any number
of clients share it, and a retried request is answered alike.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import Self

Json = dict[str, Any]
Step = dict[str, Any]
FENCE = re.compile(r"```script\s*\n(.*?)```", re.DOTALL)
WORKING_DIRECTORY = re.compile(r"[Ww]orking directory: (.+)")
USAGE = {"input_tokens": 100, "output_tokens": 20}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def script(*steps: Step, say: str = "Do this.") -> str:
    """A prompt that makes the model play the steps; a step may carry the prompt of a subagent with a script of its own."""
    plain = json.dumps(list(steps)).replace("`", "\\u0060")  # an inner fence must not end the outer one
    return f"{say}\n```script\n{plain}\n```"


def tool(name: str, /, *, if_denied: list[Step] | None = None, **arguments: Any) -> Step:
    """A step that calls a tool of the client: ``tool("Write", file_path="$CWD/a", content="x")``."""
    step: Step = {"tool": name, "input": arguments}
    return step if if_denied is None else {**step, "if_denied": if_denied}


def together(*steps: Step) -> Step:
    """A step whose one response calls several tools."""
    return {"together": list(steps)}


def bash(command: str, *, if_denied: list[Step] | None = None, **arguments: Any) -> Step:
    """A step that runs a shell command through the client's Bash tool."""
    return tool("Bash", if_denied=if_denied, command=command, **arguments)


def bash_until(condition: str, first: str = "true") -> Step:
    """A step whose shell command waits for a condition; a minute at most, for it may outlive a client that is killed."""
    return bash(f"{first}; for n in $(seq 600); do {condition} && break; sleep 0.1; done")


def text(words: str) -> Step:
    """A step that says something and ends the turn."""
    return {"text": words}


@dataclass(frozen=True)
class Request:
    """One request of a client, as a test wants to see it.

    Attributes:
        at: When it arrived, in seconds since the epoch.
        body: The JSON that was sent.
        cwd: The session's working directory, from the system prompt; empty when it names none.
        texts: Every text block of the conversation, the system's included, oldest first.
        results: The tool results since the latest script.
        step: What it was answered with; None for a scripted failure.
    """

    at: float
    body: Json
    cwd: str
    texts: list[str]
    results: list[Json]
    step: Step | None

    @property
    def result_texts(self) -> list[str]:
        """What the model was told by each tool result since the latest script."""
        return ["\n".join(_texts(result.get("content") or "")) for result in self.results]

    @property
    def tools(self) -> list[str]:
        """The names of the tools the model was offered."""
        return [str(entry["name"]) for entry in self.body.get("tools", [])]


@dataclass
class _Failure:
    status: int
    left: int | None
    containing: str
    headers: dict[str, str] = field(default_factory=dict)


class Stage:
    """The API server; use it as a context manager.

    Args:
        latency: Seconds that every answer takes; may be changed at any time.
    """

    def __init__(self, latency: float = 0.0) -> None:
        self.latency = latency
        self._requests: list[Request] = []
        self._failures: list[_Failure] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = Server(("127.0.0.1", 0), handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """What ``ANTHROPIC_BASE_URL`` has to be."""
        host, port = self.address
        return f"http://{host}:{port}"

    @property
    def address(self) -> tuple[str, int]:
        """The host and port it listens on."""
        return "127.0.0.1", self._server.server_address[1]

    @property
    def requests(self) -> list[Request]:
        """What was asked so far, in order of arrival."""
        with self._lock:
            return list(self._requests)

    def requests_in(self, cwd: object) -> list[Request]:
        """The requests of the sessions that work in a folder."""
        return [request for request in self.requests if request.cwd == str(cwd)]

    def fail(
        self, status: int, *, times: int | None = 1, containing: str = "", retry_after_s: float | None = 0
    ) -> None:
        """Answer the next requests with an error.

        Args:
            status: The HTTP status, such as 429 or 500.
            times: How many requests; None for all of them.
            containing: Only requests whose conversation contains this text.
            retry_after_s: What the client is told to wait; None leaves it to the client's own backoff.
        """
        headers = {} if retry_after_s is None else {"retry-after": str(retry_after_s)}
        with self._lock:
            self._failures.append(_Failure(status, times, containing, headers))

    def recover(self) -> None:
        """Answer with no more errors."""
        with self._lock:
            self._failures.clear()

    def answer(self, body: Json) -> tuple[Step, _Failure | None]:
        """Record one request as it arrives, wait as long as it has to, and say what it is answered with."""
        played = _Played(body)
        step, delay_s = played.due()
        with self._lock:
            failure = self._take_failure("\n".join(played.texts))
            answered = None if failure else step
            self._requests.append(Request(time.time(), body, played.cwd, played.texts, played.results, answered))
        self._closing.wait(delay_s + self.latency)
        return step, failure

    def _take_failure(self, conversation: str) -> _Failure | None:
        for failure in self._failures:
            if failure.left != 0 and failure.containing in conversation:
                failure.left = None if failure.left is None else failure.left - 1
                return failure
        return None


class _Played:
    """Where a conversation stands in its latest script."""

    def __init__(self, body: Json) -> None:
        messages: list[Json] = body.get("messages", [])
        self.texts = _texts(body.get("system") or "") + [t for m in messages for t in _texts(m["content"])]
        match = WORKING_DIRECTORY.search("\n".join(self.texts))
        self.cwd = match.group(1).strip() if match else ""
        self._steps: list[Step] | None = None
        self.results: list[Json] = []
        for message in messages:
            content = message["content"]
            blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
            for block in blocks if message["role"] != "assistant" else []:
                if block.get("type") == "tool_result":
                    self.results.append(block)
                elif block.get("type") == "text" and (fence := FENCE.search(block["text"])):
                    quoted = json.dumps(self.cwd)[1:-1]
                    self._steps, self.results = json.loads(fence.group(1).replace("$CWD", quoted)), []

    def due(self) -> tuple[Step, float]:
        """The step that is due, and the seconds to sleep before it; those before earlier steps are not slept again."""
        queue, answered, delay_s = list(self._steps or []), 0, 0.0
        while queue:
            step = queue.pop(0)
            if "sleep" in step:
                delay_s += step["sleep"] if answered == len(self.results) else 0
            elif "tool" in step and answered < len(self.results):
                denied = bool(self.results[answered].get("is_error"))
                queue = (step.get("if_denied", []) if denied else []) + queue
                answered += 1
            elif "together" in step and answered < len(self.results):
                answered += len(step["together"])
            else:
                return step, delay_s
        return text("done"), delay_s


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content] if content else []
    return [str(block["text"]) for block in content if block.get("type") == "text"]


def _message(model: str, step: Step) -> Json:
    """The whole answer to a request, as the API would give it when not streaming."""
    blocks: list[Json] = [{"type": "text", "text": step["text"]}] if "text" in step else []
    calls = step.get("together") or ([step] if "tool" in step else [])
    for call in calls:
        use = f"toolu_{uuid.uuid4().hex[:20]}"
        blocks.append({"type": "tool_use", "id": use, "name": call["tool"], "input": call["input"]})
    return {
        "id": f"msg_{uuid.uuid4().hex[:20]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {**USAGE, **step.get("usage", {})},
    }


def _events(message: Json) -> Iterator[Json]:
    """The same answer as the events of a stream."""
    usage = message["usage"]
    head = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": head}
    for index, block in enumerate(message["content"]):
        if block["type"] == "tool_use":
            opening, delta = (
                {**block, "input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
            )
        else:
            opening, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        yield {"type": "content_block_start", "index": index, "content_block": opening}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed in the middle of an answer is part of the play."""


def handler_of(stage: Stage) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the stage keeps its own record."""

        def do_GET(self) -> None:
            self._json(200, {})

        def do_HEAD(self) -> None:
            self._json(200, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            if "count_tokens" in self.path:
                self._json(200, {"input_tokens": 10})
                return
            step, failure = stage.answer(body)
            if failure:
                kind = ERROR_TYPES.get(failure.status, "api_error")
                self._json(
                    failure.status, {"type": "error", "error": {"type": kind, "message": "scripted"}}, failure.headers
                )
                return
            message = _message(str(body.get("model")), step)
            if not body.get("stream"):
                self._json(200, message)
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for event in _events(message):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.close_connection = True

        def _json(self, status: int, answer: Json, headers: dict[str, str] | None = None) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    return Handler
