"""The JSON Schema of what each command prints with ``--json``."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("schemas.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
ERROR: dict[str, Any] = {
    "$schema": DIALECT,
    "title": "An error, on stderr",
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "name": {"type": "string"},
                "message": {"type": "string"},
                "cause": {"type": "string"},
                "remedy": {"type": "string"},
                "details": {"type": "object"},
            },
            "required": ["code", "name", "message", "cause", "remedy", "details"],
        }
    },
    "required": ["error"],
}


@functools.cache
def schemas() -> dict[str, dict[str, Any]]:
    """The schemas by command, such as ``task list``."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
    return {name: {"$schema": DIALECT, "title": f"corral {name} --json", **schema} for name, schema in found.items()}
