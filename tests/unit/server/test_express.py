"""Answers of the short way."""

from __future__ import annotations

import json

from corral.server.express import _json


def test_what_is_no_unicode_is_answered_too() -> None:
    answered = {"path": "caf\udce9.py", "session": "Grün", "ttl_s": 1.5, "task": None}
    assert json.loads(_json(answered)) == answered
