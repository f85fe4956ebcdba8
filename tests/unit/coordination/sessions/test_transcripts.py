"""The last words of a session, read from the file that its client writes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from corral.coordination.sessions.transcripts import TAIL_BYTES, WORDS, last_words


def _line(*content: dict[str, Any], kind: str = "assistant", **more: Any) -> str:
    return json.dumps({"type": kind, "message": {"role": kind, "content": list(content)}, **more})


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


USE = {"type": "tool_use", "id": "1", "name": "Bash", "input": {}}


@pytest.mark.parametrize(
    ("lines", "said"),
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
def test_the_last_thing_that_was_said_is_found(tmp_path: Path, lines: list[str], said: str | None) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(lines))
    assert last_words(str(file)) == said


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
