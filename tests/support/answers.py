"""Real answers beside the types that are declared for them: no field is missing, and none is there that is not declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from pydantic import TypeAdapter


def closed(schema: Any) -> Any:
    """The schema without room for a field that it does not name."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(part) for key, part in schema.items()}
    if isinstance(made.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


def problems(schema: dict[str, Any], answer: Any) -> Iterator[str]:
    """Where an answer is not what a schema says."""
    for error in jsonschema.Draft202012Validator(closed(schema)).iter_errors(answer):
        yield f"{error.json_path}: {error.message[:300]}"


def unlike(kind: Any, answer: Any) -> list[str]:
    """Where an answer is not of a type."""
    return [*problems(TypeAdapter(kind).json_schema(mode="serialization"), answer)]
