"""Examples of requests and answers, made from their schemas: what a schema does not show by itself, the field's name says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ID = "2618ec66-8460-4ab7-a7d5-be211917ca79"
_SHA = "97bc574f091bbff740d9acf629369800bd065d9c"
_INSTANT = "2026-11-21T22:10:00.000Z"
_TEXTS = {
    "agent": "coder", "agent_id": "GreenLake", "agent_name": "GreenLake", "holder": "GreenLake", "locked_by": "GreenLake",
    "from": "Boulder", "to": "GreenLake", "held_by": "GreenLake", "author": "Ada <ada@example.com>", "session_id": "s-1",
    "agent_type": "claude", "model": "claude-sonnet-5-5", "runner": "claude", "role": "implementer", "capabilities": "python",
    "program": "claude-code", "host": "laptop", "terminal": "pts/3", "title": "Add a greeting", "task": "Fix the login",
    "current_task": "Fix the login", "reason": "Fix the login", "description": "Add a page with a test.",
    "prompt": "Write the page.", "progress": "Running the tests", "task_type": "review", "thread_id": "batch-7",
    "command": "make docs", "status": "completed", "state": "queued", "outcome": "landed", "subject": "May I have src/a.py?",
    "body": "I need it for ten minutes.", "comment": "Good tests.", "summary": "The login works.", "path": "src/a.py",
    "file_path": "src/a.py", "requested": "src/**", "paths": "src/a.py", "files": "src/a.py", "released": "src/a.py",
    "resource_claims": "src/search/**", "claims": "src/search/**", "file": ".corral/config.yaml",
    "source": ".corral/config.yaml", "branch": "corral/task-2618ec66-8460-1", "target": "main",
    "worktree": "/repo.worktrees/login", "checkout": "/repo", "project": "/repo",
    "ref": "refs/corral/salvage/login/20261121T221000000000Z", "tree": _SHA, "tip": _SHA, "sha": _SHA, "version": "1.1.0",
    "feature_id": "FEAT-123", "url": "http://127.0.0.1:41234/enter", "patch": "--- a/src/a.py\n+++ b/src/a.py\n",
    "diff": "--- a/src/a.py\n+++ b/src/a.py\n", "text": "128 passed in 41.20s\n",
    "content": "---\nname: coder\n---\n\nWrite code.\n", "message": "depends on login, which is not in the roadmap",
    "error_code": "timeout_exceeded", "error_message": "It ran for 600 s, its time limit.",
    "what": "'Login' waits to land on main: uncommitted changes", "remedy": "corral task list --status failed",
    "name": "login", "key": "schema", "day": "2026-11-21", "enforcement": "enforce",
}  # fmt: skip


def example(schema: Mapping[str, Any], named: Mapping[str, Any], name: str = "", inside: tuple[str, ...] = ()) -> Any:
    """A value that a JSON Schema allows.

    Args:
        named: The schemas that it refers to, by their names.
        name: Of the field that holds the value.
        inside: The names of the schemas that the value is a part of.
    """
    if schema.get("examples"):
        return schema["examples"][0]
    for field in ("example", "const", "default"):
        if schema.get(field) is not None:
            return schema[field]
    if schema.get("enum"):
        return schema["enum"][0]
    if (shape := _reference(schema)) is not None:
        return example(named[shape], named, name, (*inside, shape))
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        possible = [choice for choice in choices if choice.get("type") != "null" and _reference(choice) not in inside]
        return example(possible[0], named, name, inside) if possible else None
    return _of_type(schema, named, name, inside)


def _reference(schema: Mapping[str, Any]) -> str | None:
    return schema["$ref"].rpartition("/")[2] if "$ref" in schema else None


def _of_type(schema: Mapping[str, Any], named: Mapping[str, Any], name: str, inside: tuple[str, ...]) -> Any:
    kind = schema.get("type")
    if kind == "object":
        return {key: example(inner, named, key, inside) for key, inner in schema.get("properties", {}).items()}
    if kind == "array":
        items = schema.get("items", {})
        if not items or _reference(items) in inside:
            return []
        return [example(items, named, name, inside)] * max(1, schema.get("minItems", 1))
    if kind == "string":
        return _text(schema, name)
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return {"boolean": True, "integer": least, "number": max(least, 41.5)}.get(str(kind))


def _text(schema: Mapping[str, Any], name: str) -> str:
    if schema.get("format") == "date-time":
        return _INSTANT
    if name in _TEXTS:
        return _TEXTS[name]
    return (
        _ID if name.endswith(("_id", "_ids")) else _SHA if name.endswith(("_sha", "hash")) else name.replace("_", " ")
    )


def asked(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """A body that an operation takes: what it must say, and what its declaration shows."""
    if (shape := _reference(schema)) is not None:
        return asked(named[shape], named)
    if "anyOf" in schema:
        return asked(next(choice for choice in schema["anyOf"] if choice.get("type") != "null"), named)
    if schema.get("examples"):
        return schema["examples"][0]
    shown = schema.get("required", ())
    return {
        name: example(inner, named, name)
        for name, inner in schema.get("properties", {}).items()
        if name in shown or "examples" in inner
    }
