"""The last words of a session, read from the file that its client writes."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from corral.coordination.sessions.transcripts import NEVER, TAIL_BYTES, WORDS, answered_at, last_words


def _line(*content: dict[str, Any], kind: str = "assistant", **more: Any) -> str:
    return json.dumps({"type": kind, "message": {"role": kind, "content": list(content)}, **more})


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


USE = {"type": "tool_use", "id": "1", "name": "Bash", "input": {}}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([_line(_text("First.")), _line(_text("Second."), USE)], "Second."),
        ([_line(_text("First.")), _line(USE), _line(_text("Result"), kind="user")], "First."),
        ([_line(_text("Mine.")), _line(_text("The subagent's."), isSidechain=True)], "Mine."),
        ([_line(_text("One."), {"type": "thinking", "thinking": "hm"}, _text("Two."))], "One.\nTwo."),
        ([_line(_text("Whole.")), _line(_text("cut off"))[:-9]], "Whole."),
        (
            [
                _line(_text("Whole.")),
                "[]",
                "{}",
                "null",
                '{"type": "assistant"}',
                '{"type": "assistant", "message": 3}',
            ],
            "Whole.",
        ),
        ([_line(_text("Whole.")), '{"type": "assistant", "message": {"content": "plain"}}', "[" * 5000], "Whole."),
        ([_line(_text("x" * (WORDS + 10)))], "x" * WORDS),
        ([_line(_text("  "))], None),
        ([], None),
    ],
)
def test_the_last_thing_that_was_said_is_found(tmp_path: Path, lines: list[str], words: str | None) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(lines))
    assert last_words(str(file)) == words


def test_only_the_end_of_a_long_one_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    long = _line(_text("early")) + "\n" + _line(_text("y" * TAIL_BYTES), kind="user") + "\n"
    file.write_text(long)
    assert last_words(str(file)) is None
    file.write_text(long + _line(_text("late")) + "\n")
    assert last_words(str(file)) == "late"


def test_what_is_no_file_has_nothing_to_say(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (None, "", "relative.jsonl", str(tmp_path / "none"), str(tmp_path), str(tmp_path / "fifo")):
        assert last_words(path) is None


def _answer(second: int, message: str = "m", **more: Any) -> str:
    entry = {"type": "assistant", "timestamp": f"2026-11-21T12:00:{second:02}.000Z", "message": {"id": message}}
    return json.dumps({**entry, **more})


@pytest.mark.parametrize(
    ("lines", "second"),
    [
        ([_answer(1, "m"), _answer(2, "n"), _line(_text("Result"), kind="user", timestamp="2026-11-21T12:00:09Z")], 2),
        ([_answer(1, "m"), _answer(2, "n"), _answer(3, "n")], 2),
        ([_answer(1), _answer(2, "e", isApiErrorMessage=True), _answer(3, "s", isSidechain=True), "[", "{}"], 1),
        ([_answer(1), _line(_text("x" * TAIL_BYTES), kind="user")], None),
        ([_line(_text("Hello."), kind="user")], 0),
    ],
)
def test_the_latest_answer_counts_from_its_beginning(tmp_path: Path, lines: list[str], second: int | None) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(lines))
    when = None if second is None else datetime(2026, 11, 21, 12, 0, second, tzinfo=timezone.utc) if second else NEVER
    assert answered_at(str(file)) == when


def test_a_client_that_wrote_nothing_yet_had_no_answer(tmp_path: Path) -> None:
    assert answered_at(str(tmp_path / "none")) == NEVER
    assert answered_at(None) is answered_at("relative.jsonl") is None
