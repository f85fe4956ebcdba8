"""What the client's events amount to. Shapes as the real client 2.1.330 sends them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.runners.protocol import Usage
from corral.runners.stream import Transcript, one_line, plain, readable, user_message

INIT = {"type": "system", "subtype": "init", "model": "a-model", "plugins": [], "mcp_servers": []}


def answer(
    name: str, *blocks: dict[str, Any], parent: str | None = None, read: int = 10, cached: int = 0, wrote: int = 1
) -> dict[str, Any]:
    usage = {"input_tokens": read, "cache_creation_input_tokens": cached, "cache_read_input_tokens": 500}
    message = {"id": name, "content": list(blocks), "usage": {**usage, "output_tokens": wrote}}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(name: str, **tool_input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": tool_input}


def result(turns: int, cost: float, models: dict[str, tuple[int, int]], text: str = "done") -> dict[str, Any]:
    used = {
        name: {"inputTokens": read, "outputTokens": wrote, "cacheCreationInputTokens": 5, "cacheReadInputTokens": 900}
        for name, (read, wrote) in models.items()
    }
    head = {"type": "result", "subtype": "success", "is_error": False, "num_turns": turns, "result": text}
    return {**head, "total_cost_usd": cost, "modelUsage": used}


def feed(transcript: Transcript, *events: dict[str, Any]) -> list[bool]:
    return [transcript.feed(json.dumps(event).encode() + b"\n") for event in events]


def test_usage_grows_with_each_answer_and_a_repeated_answer_counts_once() -> None:
    transcript = Transcript()
    feed(transcript, INIT, answer("m1", words("a"), cached=7), answer("m1", call("Bash", command="ls"), cached=7))
    assert transcript.usage == Usage(17, 1, 0.0, 1)
    feed(transcript, answer("m2", words("b"), wrote=3))
    assert transcript.usage == Usage(27, 4, 0.0, 2)


def test_a_subagents_answers_cost_tokens_but_are_no_turns() -> None:
    transcript = Transcript()
    feed(transcript, answer("m1", words("a")), answer("m2", words("b"), parent="toolu_1"))
    assert transcript.usage == Usage(20, 2, 0.0, 1)


def test_a_result_is_the_exact_account_of_all_models() -> None:
    transcript = Transcript()
    feed(transcript, answer("m1", words("a")), result(2, 0.5, {"big": (100, 40), "small": (10, 4)}))
    assert transcript.usage == Usage(120, 44, 0.5, 2)


def test_accounts_are_of_the_session_but_turns_are_of_the_turn() -> None:
    transcript = Transcript()
    feed(transcript, result(2, 0.5, {"big": (100, 40)}), INIT, answer("m9", words("more")))
    assert transcript.usage == Usage(115, 41, 0.5, 3)
    feed(transcript, result(1, 0.7, {"big": (150, 60)}))
    assert transcript.usage == Usage(155, 60, 0.7, 3)


def test_a_new_turn_makes_the_last_result_stale() -> None:
    transcript = Transcript()
    feed(transcript, INIT, result(1, 0.1, {}, "first"))
    assert transcript.final_text() == "first"
    feed(transcript, INIT)
    assert transcript.result is None
    feed(transcript, result(1, 0.1, {}, "second"))
    assert transcript.final_text() == "second"


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (words("Now I look.\n\nThen I write."), "Now I look. Then I write."),
        (call("Edit", file_path="/w/t/src/a.py", old_string="x"), "Edit src/a.py"),
        (call("Write", file_path="/elsewhere/a.py"), "Write /elsewhere/a.py"),
        (call("Bash", command="make test", description="Run the tests"), "Bash make test"),
        (call("ExitPlanMode"), "ExitPlanMode"),
    ],
)
def test_progress_is_what_the_model_says_or_does(block: dict[str, Any], line: str) -> None:
    transcript = Transcript(root="/w/t")
    feed(transcript, answer("m1", block))
    assert transcript.progress == line


@pytest.mark.parametrize(("status", "words_of"), [(529, "status 529"), (None, "no answer")])
def test_waiting_for_the_api_is_shown_but_is_no_progress(status: int | None, words_of: str) -> None:
    transcript = Transcript()
    retry = {"type": "system", "subtype": "api_retry", "attempt": 3, "error_status": status}
    assert feed(transcript, INIT, answer("m1", words("a")), retry) == [True, True, False]
    assert transcript.progress == f"waiting for the API ({words_of}, try 3)"


def test_events_arrive_in_pieces() -> None:
    transcript = Transcript()
    data = json.dumps(answer("m1", words("é" * 50)), ensure_ascii=False).encode() + b"\n"
    for at in range(len(data)):
        transcript.feed(data[at : at + 1])
    assert transcript.progress == "é" * 50
    assert not transcript.strays


def test_a_line_without_end_is_not_kept() -> None:
    transcript = Transcript()
    for _ in range(70):
        transcript.feed(b"x" * (1 << 20))
    assert list(transcript.strays) == ["a line of more than 32 MB, which is no event"] * 2
    feed(transcript, INIT)
    transcript.feed(b"\n")
    feed(transcript, answer("m1", words("a")))
    assert transcript.progress == "a"


@pytest.mark.parametrize(
    "line",
    [
        b"Error: Session ID is already in use.",
        b'{"type": "assistant", "mess',
        b'{"type": "assistant", "message": "text"}',
        b'{"type": "assistant", "message": {"id": "m", "usage": {"input_tokens": "many"}}}',
        b'{"type": "result", "modelUsage": [1]}',
        b'{"type": "system", "subtype": "init", "plugin_errors": 3}',
        b"[1]",
        b"\xff\xfe",
        b"[" * 200_000,
    ],
)
def test_what_is_no_event_is_kept_as_a_line_and_harms_nothing(line: bytes) -> None:
    transcript = Transcript()
    assert transcript.feed(line + b"\n")
    assert len(transcript.strays) == 1
    feed(transcript, answer("m1", words("a")))
    assert transcript.usage == Usage(10, 1, 0.0, 1)
    feed(transcript, result(1, 0.1, {"m": (1, 1)}))
    assert transcript.final_text() == "done"


def test_what_did_not_load_is_a_warning() -> None:
    transcript = Transcript()
    errors = [{"plugin": "corral", "type": "x", "message": "bad manifest"}]
    servers = [{"name": "plugin:corral:corral", "status": "failed"}, {"name": "other", "status": "connected"}]
    feed(transcript, {**INIT, "plugin_errors": errors, "mcp_servers": servers})
    assert transcript.warnings == ["corral: bad manifest", "MCP server plugin:corral:corral failed"]


def test_a_line_to_show_is_one_line_without_tricks() -> None:
    assert one_line("a\n b\t\x1b[31mred\x1b[0m \x1b]0;title\x07x\u202e\x00y") == "a b red xy"
    assert one_line("x" * 400) == "x" * 299 + "…"


def test_a_text_to_keep_has_its_lines_and_no_secrets() -> None:
    key = "sk-ant-api03-" + "a1" * 12
    assert plain(f"one\r\x1b[1m{key}\x1b[0m\nthree") == "one\n[redacted]\nthree"


def test_a_message_is_one_line() -> None:
    assert json.loads(user_message("a\nb")) == {"type": "user", "message": {"role": "user", "content": "a\nb"}}
    assert user_message("a\nb").count(b"\n") == 1


def test_a_clients_output_is_read_as_its_texts_its_tool_calls_and_what_is_no_event() -> None:
    events = [
        {"type": "system", "subtype": "init", "model": "m"},
        answer("a", {"type": "text", "text": "First\n\x1b[31mred\x1b[0m"}, {"type": "thinking", "thinking": "…"}),
        answer("a", {"type": "tool_use", "name": "Bash", "input": {"command": "make\ntest"}}),
        {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "content": "ok"}]}},
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "is_error": True, "content": [{"text": "exit\n2"}]}]},
        },
        {"type": "result", "result": "done", "num_turns": 2, "duration_ms": 1500, "total_cost_usd": 0.5},
    ]
    lines = [json.dumps(event) for event in events]
    text = "\n".join([*lines[:2], "a warning", '{"type": "assistant", "message": "odd"}', *lines[2:]]) + "\n"
    odd = '{"type": "assistant", "message": "odd"}'
    assert readable(text).splitlines() == [
        "-- turn started, model m", "First", "red", "a warning", odd, "> Bash make test", "! exit 2",
        "-- turn ended: 2 answers, 1.5 s, $0.5000 so far",
    ]  # fmt: skip
    assert readable("") == "" and readable("[1]\n") == "[1]\n"
