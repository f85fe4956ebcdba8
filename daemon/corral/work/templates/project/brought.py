"""Find all that a template would run on this machine: hooks, MCP servers, commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from corral.config.document import DocumentError, read_mapping
from corral.git.remote.parts import AGENTS, CONFIG, MCP, SETTINGS, TASK_TEMPLATES, Part
from corral.work.templates.api import Brought

_RUNS = {
    "landing": ("verify", "approve", "approve_paths"),
    "worktrees": ("setup",),
    "runners": ("claude",),
    "notifications": ("webhook_url",),
    "telemetry": ("otlp_endpoint",),
    "templates": ("allowed_signers",),
}
_OF_FRONT = ("hooks", "mcpServers", "command", "runner_env", "allowed-tools", "permissionMode")
_SCRIPTS = (".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".ps1", ".bat", ".cmd")
_OF_TASKS = ("command", "loop")
_FRONT = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|$)", re.DOTALL)


def brought(parts: Mapping[str, Part]) -> list[Brought]:
    """Everything in a template that runs, or permits something.

    Args:
        parts: As a project gets them.
    """
    entries: list[Brought] = []
    for path, part in sorted(parts.items()):
        entries += ({"file": path, "what": what, "runs": _text(value)} for what, value in _of_file(path, part))
    return entries


def _of_file(path: str, part: Part) -> Iterator[tuple[str, Any]]:
    if path == SETTINGS:
        # Any setting of Claude Code may permit something or run something.
        yield from _object(part.data).items()
    elif path == MCP:
        servers = _object(part.data).get("mcpServers", {})
        yield from ((f"MCP server {name}", server) for name, server in servers.items())
    elif path == CONFIG:
        yield from _of_config(part.data)
    elif path.startswith(".claude/hooks/") or _is_program(path, part):
        yield "program", f"{len(part.data)} bytes"
    elif path.endswith(".md"):
        front = _FRONT.match(part.data.decode("utf-8", "replace").replace("\r\n", "\n"))
        fields = _mapping((front[1] if front else "").encode())
        yield from ((name, fields[name]) for name in _OF_FRONT if name in fields)
        if not path.startswith(AGENTS) and "!`" in part.data.decode("utf-8", "replace"):
            yield "commands", "a prompt that runs shell commands (!`…`)"
    elif path.startswith(TASK_TEMPLATES):
        fields = _mapping(part.data)
        yield from ((name, fields[name]) for name in _OF_TASKS if fields.get(name))
        steps = fields.get("steps")
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, dict):
                yield from ((f"{name} of {step.get('name')}", step[name]) for name in _OF_TASKS if step.get(name))


def _is_program(path: str, part: Part) -> bool:
    """Whether it is meant to be run, executable or not: a skill may name an interpreter for it."""
    return part.executable or part.data.startswith(b"#!") or path.lower().endswith(_SCRIPTS)


def _of_config(data: bytes) -> Iterator[tuple[str, Any]]:
    settings = _mapping(data)
    bodies: list[tuple[str, Any]] = [("", settings)]
    profiles = settings.get("profiles")
    if isinstance(profiles, dict):
        bodies += [(f"profiles.{name}.", body) for name, body in profiles.items()]
    for prefix, body in bodies:
        for section, keys in _RUNS.items():
            values = body.get(section) if isinstance(body, dict) else None
            for key in keys:
                if isinstance(values, dict) and values.get(key):
                    yield f"{prefix}{section}.{key}", values[key]
    if settings.get("aliases"):
        yield "aliases", settings["aliases"]


def _mapping(data: bytes) -> dict[str, Any]:
    try:
        return read_mapping(data)
    except DocumentError:
        return {}


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
