"""The runner ``anthropic`` with the real SDK, against a scripted Messages API on loopback.

What concerns its process is seen in one. A conversation is the same without: it is had here, by the worker's own program with the
runner's own order, and its events are read as the runner reads them.
"""

from __future__ import annotations

import http.server
import io
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from corral.config.agents import AgentDefinition
from corral.core import instants
from corral.core.errors import InvalidInput, RunnerUnavailable
from corral.runners.anthropic import AnthropicRunner, MessagesOutput
from corral.runners.messages import loop
from corral.runners.protocol import Assignment, Finished, Limits, Running, Usage
from tests.e2e.stage import Stage, script, text, together, tool
from tests.integration.running import clock, find_marked, finish, look, make_assignment

KEY = "sk-ant-test-0123456789-not-a-real-key"
Start = Callable[..., Running]
RUN = tool("run_command", command="true")


@pytest.fixture
def start(tmp_path: Path, stage: Stage, assignments: list[Assignment]) -> Start:
    """Start a conversation: ``start(prompt, url=…, silence_s=…, limits=…, …)``."""

    def begin(prompt: str, *, url: str = stage.url, silence_s: float = 60, **changes: Any) -> Running:
        assignment = make_assignment(tmp_path, prompt=prompt, **{"model": "claude-sonnet-4-5", **changes})
        assignments.append(assignment)
        environ = {**os.environ, "ANTHROPIC_BASE_URL": url}
        return AnthropicRunner(environ, lambda: KEY, silence_s=silence_s).start(assignment, clock())

    return begin


class Conversation(NamedTuple):
    """How one ended, what it used, and what a person was shown meanwhile."""

    finished: Finished
    usage: Usage
    progress: list[str | None]


Converse = Callable[..., Conversation]


@pytest.fixture
def converse(tmp_path: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Converse:
    """Have a conversation to its end: ``converse(prompt, url=…, silence_s=…, limits=…, …)``."""

    def have(prompt: str, *, url: str = stage.url, silence_s: float = 60, **changes: Any) -> Conversation:
        assignment = make_assignment(tmp_path, prompt=prompt, **{"model": "claude-sonnet-4-5", **changes})
        orders: list[bytes] = []

        def keep(*_args: object, stdin: bytes, **_how: object) -> None:
            orders.append(stdin)
            raise InterruptedError

        with monkeypatch.context() as patched, suppress(InterruptedError):
            patched.setattr("corral.runners.anthropic.keep", keep)
            environ = {**os.environ, "ANTHROPIC_BASE_URL": url}
            AnthropicRunner(environ, lambda: KEY, silence_s=silence_s).start(assignment, clock())
        written, output, progress = io.StringIO(), MessagesOutput(assignment), list[str | None]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a model: in a process of its own nobody sees it
            loop.main(io.StringIO(orders[0].decode()), written)
        for line in written.getvalue().splitlines(keepends=True):
            output.feed(line.encode())
            progress.append(output.progress)
        return Conversation(output.verdict(0), output.usage, progress)

    return have


# -- its process


def test_it_edits_a_file_and_runs_a_command_and_none_of_them_has_the_key(
    start: Start, tmp_path: Path, stage: Stage
) -> None:
    (tmp_path / "worktree").mkdir()
    for name in ("anthropic", "json", "corral"):  # a module of the worktree does not replace its own
        (tmp_path / "worktree" / f"{name}.py").write_text("raise SystemExit('taken over')\n")
    environments = "env; tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline"
    running = start(
        script(
            tool("write_file", file_path="hello.txt", content="hello\n"),
            together(
                tool("edit_file", file_path="$CWD/hello.txt", old_string="hello", new_string="good day"),
                tool("run_command", command="cat hello.txt; pwd"),
            ),
            tool("read_file", file_path="../stolen.txt"),
            tool("run_command", command=environments),
            text("Said good day."),
        )
    )
    finished = finish(running)
    assert finished.success, finished
    assert (finished.exit_code, finished.result["text"], finished.result["stop_reason"]) == (
        0,
        "Said good day.",
        "end_turn",
    )
    assert (tmp_path / "worktree/hello.txt").read_text() == "good day\n"
    _wrote, _edited, ran, refused, environment = stage.requests[-1].results
    assert ran["content"] == f"good day\n{tmp_path}/worktree\n" and "is_error" not in ran
    assert refused["is_error"] and "outside of the working directory" in refused["content"]
    assert "CORRAL_TASK_ID=" in environment["content"]
    assert KEY not in environment["content"] and "ANTHROPIC" not in environment["content"]
    assert KEY not in (tmp_path / "logs/1.log").read_text()
    seen = running.observe(clock())
    assert (seen.usage.input_tokens, seen.usage.output_tokens, seen.usage.turns) == (500, 100, 5)
    assert seen.usage.cost_usd == pytest.approx((500 * 3 + 100 * 15) / 1e6)
    assert seen.progress == "Said good day."


def test_a_stop_ends_it_and_its_command(start: Start, assignments: list[Assignment]) -> None:
    running = start(script(tool("run_command", command="sleep 600"), text("Never.")))
    look(running, lambda seen: seen.progress == "run_command sleep 600")
    look(running, lambda seen: len(find_marked(assignments[0].task_id)) >= 2)
    assert not running.listens and not running.tell("Hello.")
    running.stop(clock(), "cancelled", "Cancelled.")
    assert finish(running).error_code == "cancelled"
    assert running.observe(clock()).usage.cost_usd == pytest.approx((100 * 3 + 20 * 15) / 1e6)
    assert find_marked(assignments[0].task_id) == []


def test_it_starts_only_with_a_prompt_and_a_key(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"]}
    with pytest.raises(RunnerUnavailable, match="needs an API key") as refused:
        AnthropicRunner(environ, lambda: None).available()
    assert "corral config set-key" in str(refused.value.remedy)
    runner = AnthropicRunner(environ, lambda: KEY)
    runner.available()
    with pytest.raises(InvalidInput, match="no prompt"):
        runner.start(make_assignment(tmp_path), clock())


# -- its conversations


def test_the_prompt_and_what_does_not_change_are_cached(converse: Converse, stage: Stage) -> None:
    assert converse(script(RUN, RUN, text("Done.")), instructions="Be brief.").finished.success
    body = stage.requests[-1].body
    assert [block.get("cache_control") for block in body["system"]] == [{"type": "ephemeral"}]
    assert "Be brief." in body["system"][0]["text"] and "git worktree" in body["system"][0]["text"]
    assert [i for i, entry in enumerate(body["tools"]) if "cache_control" in entry] == [5]
    marked = [
        i for i, message in enumerate(body["messages"]) if any("cache_control" in block for block in message["content"])
    ]
    assert marked == [len(body["messages"]) - 1]


def test_tokens_of_the_cache_have_their_own_price_and_are_not_counted(converse: Converse) -> None:
    used = {"cache_read_input_tokens": 10_000, "cache_creation_input_tokens": 1000}
    had = converse(script({**text("Done."), "usage": used}), limits=Limits(max_tokens=5000))
    finished = had.finished
    assert finished.success
    assert finished.result["usage"]["cacheReadInputTokens"] == 10_000
    assert had.usage.input_tokens == 1100
    assert had.usage.cost_usd == pytest.approx((100 * 3 + 1000 * 3.75 + 10_000 * 0.3 + 20 * 15) / 1e6)


def test_an_agent_s_instructions_tools_and_model_are_used(converse: Converse, stage: Stage) -> None:
    agent = AgentDefinition.model_validate(
        {
            "name": "Reader",
            "description": "Reads.",
            "instructions": "Only read.",
            "tools": "Read, Grep",
            "runner": "anthropic",
        }
    )
    had = converse(script(RUN, text("Done.")), definition=agent.for_claude(), agent="Reader", model="opus")
    assert had.finished.success
    request = stage.requests[-1]
    assert request.tools == ["read_file", "search"]
    assert request.body["system"][0]["text"].startswith("Only read.\n\n")
    assert request.body["model"] == "claude-opus-5-5"
    assert request.results[0]["is_error"] and "There is no tool run_command" in request.results[0]["content"]


@pytest.mark.parametrize("status", [429, 500, 529])
def test_a_busy_api_is_asked_again(converse: Converse, stage: Stage, status: int) -> None:
    stage.fail(status, times=2)
    had = converse(script(text("At last.")))
    assert f"waiting for the API (status {status}, try 1)" in had.progress
    finished = had.finished
    assert finished.success and len(stage.requests) == 3


def test_an_api_that_stays_overloaded_ends_the_attempt_and_another_makes_sense(
    converse: Converse, stage: Stage
) -> None:
    stage.fail(529, times=None)
    finished = converse(script(text("Never."))).finished
    assert (finished.success, finished.error_code, finished.retryable) == (False, "api_error", True)
    assert finished.error_message == "The API answered 529: scripted"
    assert finished.result["api_error_status"] == 529 and len(stage.requests) == 4


def test_a_usage_limit_is_not_waited_for_but_its_end_is_told(converse: Converse, stage: Stage) -> None:
    stage.fail(429, times=None, retry_after_s=3600)
    began = clock()
    finished = converse(script(text("Never."))).finished
    assert (finished.error_code, finished.retryable, finished.result["api_error_status"]) == ("api_error", True, 429)
    assert len(stage.requests) == 1
    assert 3500 < (instants.parse(finished.result["retry_at"]) - began).total_seconds() < 3700


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_final(converse: Converse, stage: Stage, status: int) -> None:
    stage.fail(status, times=None)
    finished = converse(script(text("Never."))).finished
    assert (finished.error_code, finished.retryable, finished.result["api_error_status"]) == (
        "api_error",
        False,
        status,
    )
    assert "corral config key-status" in str(finished.error_message) and len(stage.requests) == 1


def test_a_request_that_is_wrong_is_final(converse: Converse, stage: Stage) -> None:
    stage.fail(400, times=None)
    finished = converse(script(text("Never."))).finished
    assert (finished.error_code, finished.retryable, len(stage.requests)) == ("api_error", False, 1)


def test_an_api_that_nobody_serves_is_worth_another_attempt(converse: Converse) -> None:
    finished = converse("Anything.", url="http://127.0.0.1:9").finished
    assert (finished.error_code, finished.retryable, finished.result["api_error_status"]) == ("api_error", True, None)
    assert "cannot be reached" in str(finished.error_message)


def test_its_turns_its_money_and_its_tokens_are_limited(converse: Converse) -> None:
    steps = script(*[RUN] * 8, text("Never."))
    ended = converse(steps, limits=Limits(max_turns=3)).finished
    assert (ended.error_code, ended.error_message) == ("max_turns", "The worker reached its limit of 3 turns.")
    ended = converse(steps, limits=Limits(max_cost_usd=0.001)).finished
    assert (ended.error_code, ended.error_message) == ("budget_exceeded", "The worker reached its budget of 0.001 USD.")
    ended = converse(steps, limits=Limits(max_tokens=300)).finished
    assert (ended.error_code, ended.error_message) == ("token_limit", "The worker used more than 300 tokens.")
    assert not ended.retryable


def test_the_cost_of_an_unknown_model_is_said_to_be_unknown(converse: Converse) -> None:
    had = converse(script(text("Done.")), model="claude-unheard-of")
    finished = had.finished
    assert had.usage.cost_usd == 0
    (warning,) = finished.result["warnings"]
    assert warning.startswith("The price of claude-unheard-of is not known")


class _Odd(http.server.BaseHTTPRequestHandler):
    """Answers each request with the next of its server's ``answers``; the last goes on."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server: Any = self.server
        server.bodies.append(body)
        answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        if answer is None:
            server.closing.wait()
            return
        self.wfile.write(answer)


@contextmanager
def odd_api(*answers: bytes | None) -> Iterator[Any]:
    """An API that gives exactly these bytes; None: it says nothing."""
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Odd)
    server.daemon_threads = True
    server.answers, server.bodies, server.closing = list(answers), [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def events(*blocks: dict[str, Any], stop_reason: str = "end_turn", until: int | None = None) -> bytes:
    """The stream of one answer, or its beginning."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    head: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    stream: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "stop_sequence": None, "usage": usage}}
    ]
    for index, block in enumerate(blocks):
        stream.append({"type": "content_block_start", "index": index, "content_block": block})
        stream.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": stop_reason, "stop_sequence": None}
    stream += [{"type": "message_delta", "delta": ending, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in stream[:until])


def said(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_an_api_that_falls_silent_is_asked_again(converse: Converse) -> None:
    with odd_api(None, events(said("Awake."))) as api:
        had = converse("Anything.", url=api.url, silence_s=1)
        assert had.finished.result["text"] == "Awake."


@pytest.mark.parametrize(
    "garbage",
    [b"<html>Busy</html>", b"event: message_start\ndata: {nothing\n\n", b"", events(said("Half."), until=2)],
    ids=["a page", "broken JSON", "nothing", "half an answer"],
)
def test_an_answer_that_is_none_is_asked_for_again(converse: Converse, garbage: bytes) -> None:
    with odd_api(garbage, events(said("Whole."))) as api:
        finished = converse("Anything.", url=api.url).finished
        assert finished.success, finished
        assert finished.result["text"] == "Whole."


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"<html>Busy</html>", "The API's answer cannot be read"),
        (events(said("Half."), until=2), "ended in the middle"),
    ],
    ids=["a page", "half an answer"],
)
def test_garbage_without_end_is_an_error_of_the_api(converse: Converse, garbage: bytes, reason: str) -> None:
    with odd_api(garbage) as api:
        finished = converse("Anything.", url=api.url).finished
        assert (finished.error_code, finished.retryable, len(api.bodies)) == ("api_error", True, 4)
        assert reason in str(finished.error_message)


def test_an_error_in_the_middle_of_an_answer_has_its_own_status(converse: Converse) -> None:
    error = {"type": "error", "error": {"type": "authentication_error", "message": "revoked"}}
    broken = events(said("Half."), until=2) + f"event: error\ndata: {json.dumps(error)}\n\n".encode()
    with odd_api(broken) as api:
        finished = converse("Anything.", url=api.url).finished
        assert (finished.result["api_error_status"], finished.retryable, len(api.bodies)) == (401, False, 1)


def test_a_refusal_is_final(converse: Converse) -> None:
    with odd_api(events(said("I cannot."), stop_reason="refusal")) as api:
        finished = converse("Anything.", url=api.url).finished
        assert (finished.error_code, finished.retryable) == ("api_error", False)
        assert finished.error_message == "The model refused to go on: I cannot."


def test_a_pause_is_continued(converse: Converse) -> None:
    with odd_api(events(said("Wait."), stop_reason="pause_turn"), events(said("Done."))) as api:
        assert converse("Anything.", url=api.url).finished.result["text"] == "Done."
        assert [message["role"] for message in api.bodies[1]["messages"]] == ["user", "assistant"]


def test_a_cut_answer_goes_on_in_smaller_steps_a_few_times(converse: Converse, tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t", "name": "write_file", "input": {"file_path": "x", "content": "x"}}
    cut = events(said("First,"), call, stop_reason="max_tokens")
    with odd_api(cut, events(said("Done."))) as api:
        assert converse("Anything.", url=api.url).finished.success
        _first, answer, note = api.bodies[1]["messages"]
        assert answer["content"] == [said("First,")] and "was cut" in note["content"][0]["text"]
        assert not (tmp_path / "worktree/x").exists()
    with odd_api(cut) as api:
        finished = converse("Anything.", url=api.url).finished
        assert (finished.error_code, len(api.bodies)) == ("command_failed", 4)
        assert "4 answers in a row reached their limit" in str(finished.error_message)
