"""The tool calls that a transcript tells of; whatever else stands in it is passed over."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from corral.faces.hooks.unannounced import TAIL_BYTES, tool_calls

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def entry(kind: str, second: int, *parts: Any, **more: Any) -> str:
    at = (NOON + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"type": kind, "timestamp": at, "cwd": "/r", "message": {"content": list(parts)}, **more})


def use(number: int, second: int, name: str = "Edit", **tool_input: Any) -> str:
    return entry("assistant", second, {"type": "tool_use", "id": f"u{number}", "name": name, "input": tool_input})


def result(number: int, second: int, **more: Any) -> str:
    return entry("user", second, {"type": "tool_result", "tool_use_id": f"u{number}", "content": "x", **more})


def test_calls_that_were_not_over_at_an_instant_are_told(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    lines = [
        use(1, 1, file_path="/r/early"), result(1, 2),
        use(2, 3, "Bash", command="make"), result(2, 9),
        use(3, 6, "NotebookEdit", notebook_path="/r/n.ipynb"), result(3, 7, is_error=True),
        use(4, 8, file_path="/r/open"),
    ]  # fmt: skip
    file.write_text("\n".join(lines))
    reading = tool_calls(file, NOON + timedelta(seconds=5))
    assert reading.complete
    seen = [(call.tool, call.path, call.command, call.ended is None, call.failed) for call in reading.calls]
    assert seen == [
        ("Bash", "", "make", False, False),
        ("NotebookEdit", "/r/n.ipynb", "", False, True),
        ("Edit", "/r/open", "", True, False),
    ]


def test_what_a_subagent_did_is_not_its_parents_doing(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    below = {"type": "tool_use", "id": "u2", "name": "Edit", "input": {"file_path": "/r/below"}}
    file.write_text("\n".join([use(1, 1, file_path="/r/own"), entry("assistant", 2, below, isSidechain=True)]))
    assert [call.path for call in tool_calls(file, NOON).calls] == ["/r/own"]
    assert [call.path for call in tool_calls(file, NOON, of_subagent=True).calls] == ["/r/below"]


def test_only_the_end_of_a_long_one_is_read_and_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    padding = entry("user", 4, {"type": "text", "text": "x" * TAIL_BYTES})
    file.write_text("\n".join([use(1, 1, file_path="/r/a"), padding, use(2, 6, file_path="/r/b")]))
    reading = tool_calls(file, NOON)
    assert [call.path for call in reading.calls] == ["/r/b"] and not reading.complete
    assert tool_calls(file, NOON + timedelta(seconds=6)).complete


def test_what_is_not_as_expected_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    strange = [
        "", "[]", "3", "null", "{", "[" * 5000, '{"type": "user"}',
        '{"type": "assistant", "timestamp": 3, "message": {"content": [{"type": "tool_use"}]}}',
        '{"type": "assistant", "timestamp": "soon", "message": {"content": "\\"tool_use\\""}}',
        entry("assistant", 1, {"type": "tool_use"}), entry("assistant", 1, "tool_use", 3), entry("user", 1, None),
        use(5, 1, command=["ls"], file_path=7), '{"type": "summary", "text": "\\"tool_use\\""}',
    ]  # fmt: skip
    file.write_text("\n".join([use(1, 1, file_path="/r/a"), *strange, result(1, 2)]))
    paths = [(call.path, call.command) for call in tool_calls(file, NOON).calls]
    assert paths == [("/r/a", ""), ("", "")]
    os.mkfifo(tmp_path / "fifo")
    assert not tool_calls(tmp_path / "fifo", NOON).complete and not tool_calls(tmp_path, NOON).complete
    assert tool_calls(tmp_path / "none", NOON).complete, "a client that was asked nothing writes nothing"
