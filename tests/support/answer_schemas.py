"""The JSON Schema of an answer, made from answers: types, fields, and what a field's name says beside them."""

from __future__ import annotations

from typing import Any

_FREE = {
    "data", "metadata", "settings", "env", "result", "input_data", "details", "limits", "agent_requirements",
    "state", "runner_env", "hooks", "mcpServers", "sources", "parameters", "open", "error", "config_error", "merge_error", "ids",
}  # fmt: skip
"""Objects with fields of their own in every answer."""
_TEXTS = {
    "command", "disallowed_tools", "warnings", "config_warnings", "in_progress", "decisions", "attachments", "bounced",
    "wait_for", "followers", "claims", "commands",
}  # fmt: skip
"""Lists of texts."""
_LISTS = {"tools"}
_SOMETIMES = {
    "worktree", "branch", "reason", "note", "progress", "agent", "model", "template", "delay", "salvage_ref", "error_code",
    "error_message", "waiting_for", "landed_sha", "checkout", "locked_by", "merge_state", "by",
}  # fmt: skip
"""Texts that may be null."""
_COUNTS = {"memory_mb", "pid", "tests", "agents", "reply_to", "exit_code"}
"""Numbers that may be null."""
_FIGURES = {"mean", "p50", "p95", "max", "mean_ms", "p50_ms", "p95_ms"}
"""Figures of a set that may be empty."""
_BY_NAME = {"failures_by_code", "states"}
"""Counts by a name."""


def schema_of(value: Any, name: str = "") -> dict[str, Any]:
    """The JSON Schema of one value; what a field is called says what else it may be."""
    if name in _FREE and (value is None or isinstance(value, dict)):
        return {"type": ["null", "object"]}
    if name == "value":
        return {}
    if name == "commands" and isinstance(value, dict):
        return {"type": "object", "additionalProperties": {"type": "object"}}
    if name == "kept" and isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if name in _BY_NAME:
        return {"type": "object", "additionalProperties": {"type": "integer"}}
    if isinstance(value, dict):
        fields = {key: schema_of(inner, key) for key, inner in value.items()}
        return {"type": "object", "properties": fields, "required": sorted(fields)}
    if isinstance(value, list):
        items: dict[str, Any] = {"type": "string"} if not value and name in _TEXTS else {}
        for one in value:
            items = union(items, schema_of(one, ""))
        return {"type": "array", "items": items}
    return _of_scalar(value, name)


def _of_scalar(value: Any, name: str) -> dict[str, Any]:
    if name.endswith("_at"):
        return {"type": ["null", "string"], "format": "date-time"}
    if name.endswith(("_s", "_usd", "_rate")) or name in _FIGURES:
        return {"type": ["null", "number"]}
    if value is None and name in _LISTS:
        return {"type": ["array", "null"], "items": {"type": "string"}}
    if name in _COUNTS and not isinstance(value, str):
        return {"type": ["integer", "null"]}
    if value is None or (name in _SOMETIMES and isinstance(value, str)):
        return {"type": ["null", "string"]}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": kinds[type(value)]}


def union(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The schema of whatever one of the two describes."""
    if not one or not other or one == other:
        return one or other
    types = _types(one) | _types(other)
    if {"integer", "number"} <= types:
        types.remove("integer")
    made: dict[str, Any] = {**one, **other, "type": sorted(types) if len(types) > 1 else next(iter(types))}
    if "items" in one and "items" in other:
        made["items"] = union(one["items"], other["items"])
    if "properties" in one and "properties" in other:
        names = [*one["properties"], *(name for name in other["properties"] if name not in one["properties"])]
        first, second = one["properties"], other["properties"]
        made["properties"] = {
            name: union(first[name], second[name]) if name in first and name in second else {**first, **second}[name]
            for name in names
        }
        made["required"] = sorted({*one["required"]} & {*other["required"]})
    return made


def _types(schema: dict[str, Any]) -> set[str]:
    kind = schema.get("type", [])
    return {kind} if isinstance(kind, str) else {*kind}
