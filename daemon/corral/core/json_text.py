"""Answers as JSON. Half of a surrogate pair, from a file name that is not UTF-8 or from a client, does not make them fail."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import to_json

_HALF = re.compile("[\ud800-\udfff]")


def json_bytes(value: Any) -> bytes:
    """A value as JSON, in UTF-8; half a pair as its escape."""
    try:
        return to_json(value)
    except ValueError:  # that, or too deep for it
        return json.dumps(value).encode()


def utf8(value: Any) -> Any:
    """A value that can be written as UTF-8: itself, or a copy that shows half a pair as its escape."""
    try:
        to_json(value)
    except ValueError:  # that, or too deep for it
        text = json.dumps(value, ensure_ascii=False)
        return json.loads(_HALF.sub(lambda half: f"\\\\u{ord(half[0]):04x}", text))
    return value
