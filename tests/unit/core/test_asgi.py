"""Answers as JSON."""

from __future__ import annotations

import json

from pydantic import BaseModel

from corral.core.asgi import json_bytes, utf8


class Named(BaseModel):
    path: str


def test_what_is_no_unicode_is_answered_too() -> None:
    answered = {"path": "caf\udce9.py", "session": "Grün", "ttl_s": 1.5, "task": None}
    assert json.loads(json_bytes(answered)) == answered
    assert json.loads(json_bytes([Named(path="caf\udce9.py")])) == [{"path": "caf\udce9.py"}], "also in a shape of ours"


def test_whoever_must_have_utf_8_sees_what_is_none_as_what_it_was() -> None:
    plain = {"path": ["Grün \\ud800 \\", 1.5, None]}
    assert utf8(plain) is plain
    assert utf8({**plain, "odd": ["\\\udce9", "\ud83d"]}) == {**plain, "odd": ["\\\\udce9", "\\ud83d"]}
