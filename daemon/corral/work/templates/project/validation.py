"""Check a whole project template: every error, with its file and line."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corral.config.agents import read_definition
from corral.config.document import DocumentError, read_located
from corral.config.load import TEAM_FILE, load
from corral.config.paths import Project
from corral.config.teams import read_team
from corral.core.errors import ConfigInvalid
from corral.git.remote.parts import (
    AGENTS,
    CONFIG,
    MANIFEST,
    MCP,
    OLD_MCP,
    SETTINGS,
    TASK_TEMPLATES,
    Part,
    Parts,
    unsafe_path,
)
from corral.work.templates.api import TemplateError
from corral.work.templates.project.manifest import problems_of
from corral.work.templates.task_template import Problem
from corral.work.templates.validation import of_task_template

MOST_FINDINGS = 200


def findings(parts: Parts) -> list[TemplateError]:
    """The errors of a template."""
    errors: list[TemplateError] = [
        {"file": path, "line": problem.line, "field": problem.field, "reason": problem.reason}
        for path, problem in _problems(parts)
    ]
    return errors[:MOST_FINDINGS]


def require_valid(parts: Parts, name: str, kept_since: str | None = None) -> None:
    """Refuse a template with errors.

    Args:
        kept_since: When the cached copy was fetched; None: it was fetched just now.

    Raises:
        ConfigInvalid: ``details["errors"]`` lists them all.
    """
    errors = findings(parts)
    if not errors:
        return
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    again = f" This is the copy of {kept_since}: `--update` fetches it again." if kept_since else ""
    raise ConfigInvalid(
        f"The template {name} has {count}.",
        cause="Its files are not what a template has.",
        remedy=f"Nothing was installed. Name another version, or have it corrected (`corral template validate FOLDER`).{again}",
        details={"errors": errors},
    )


def as_line(error: TemplateError) -> str:
    """An error as a line of text."""
    where = f"{error['file']}:{error['line']}" if error["line"] else error["file"]
    return f"{where}: {error['field']}: {error['reason']}" if error["field"] else f"{where}: {error['reason']}"


def _problems(parts: Parts) -> Iterator[tuple[str, Problem]]:
    for path, part in sorted(parts.items()):
        if (reason := unsafe_path(path)) is not None:
            yield path, Problem(None, "", f"the path {reason}")
        elif part.kind != "file":
            kind = "a symbolic link" if part.kind == "link" else "a submodule"
            yield path, Problem(None, "", f"is {kind}; a template has plain files alone")
    if CONFIG not in parts:
        yield CONFIG, Problem(None, "", "is missing; a template needs it")
    if not any(path.startswith(AGENTS) for path in parts):
        yield AGENTS, Problem(None, "", "is missing or empty; a template needs at least one agent definition there")
    if MCP in parts and OLD_MCP in parts:
        yield OLD_MCP, Problem(None, "", f"stands beside {MCP}; a template has one of them")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _laid_out(root, parts)
        for path in sorted(path for path, part in parts.items() if part.kind == "file" and not unsafe_path(path)):
            for problem in _of_file(root, path, parts[path]):
                yield path, problem


def _laid_out(root: Path, parts: Parts) -> None:
    """Write the files into an empty folder of ours, where the readers of each kind find them."""
    for path, part in parts.items():
        if part.kind == "file" and not unsafe_path(path):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(part.data)


def _of_file(root: Path, path: str, part: Part) -> Iterator[Problem]:
    if path == CONFIG:
        yield from _of_config(root, part.data)
    elif path == MANIFEST:
        yield from (
            problem if problem.line or problem.field else _whole(problem.reason) for problem in problems_of(part.data)
        )
    elif path == ".corral/teams.yaml":
        yield from _of_reader(lambda: read_team(root / path), part.data)
    elif path.startswith(AGENTS) and path.endswith(".md"):
        yield from _of_agent(root / path, part.data)
    elif path.startswith(TASK_TEMPLATES) and path.endswith((".yaml", ".yml")):
        yield from of_task_template(root / path)
    elif path in (MCP, OLD_MCP, SETTINGS):
        yield from _of_json(path, part.data)


def _of_config(root: Path, data: bytes) -> Iterator[Problem]:
    project = Project(root, root / ".git", root / ".corral", bare=False)
    try:
        located = read_located(data)
    except DocumentError as error:
        yield _whole(str(error))
        return
    try:
        warnings = load(project, environ={}, home=root / "nobody", instead={TEAM_FILE: data}).warnings
    except ConfigInvalid as error:
        for error_field in error.details["errors"]:
            yield Problem(_line_of(located.lines, error_field["field"]), error_field["field"], error_field["reason"])
    else:
        for warning in warnings:
            yield Problem(None, "", warning)


def _of_agent(file: Path, data: bytes) -> Iterator[Problem]:
    try:
        definition = read_definition(file)
    except ConfigInvalid as error:
        lines = _front_lines(data)
        for error_field in error.details["errors"]:
            yield Problem(_line_of(lines, error_field["field"]) or 1, error_field["field"], error_field["reason"])
    else:
        if definition is None:
            yield Problem(1, "", "has no front matter: it begins with a line `---`, with name and description")


def _front_lines(data: bytes) -> dict[tuple[str | int, ...], int]:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if not text.startswith("---\n") or "\n---" not in text[4:]:
        return {}
    try:
        lines = read_located(text[4 : text.index("\n---", 3) + 1].encode()).lines
    except DocumentError:
        return {}
    return {path: line + 1 for path, line in lines.items()}


def _of_reader(read: Any, data: bytes) -> Iterator[Problem]:
    try:
        read()
    except ConfigInvalid as error:
        try:
            lines = read_located(data).lines
        except DocumentError as document:
            yield _whole(str(document))
            return
        for error_field in error.details["errors"]:
            yield Problem(_line_of(lines, error_field["field"]), error_field["field"], error_field["reason"])


def _of_json(path: str, data: bytes) -> Iterator[Problem]:
    try:
        value = json.loads(data)
    except json.JSONDecodeError as error:
        yield Problem(error.lineno, "", f"is not JSON: {error.msg}")
        return
    except (UnicodeDecodeError, RecursionError) as error:
        yield Problem(None, "", f"is not JSON: {error}")
        return
    if not isinstance(value, dict):
        yield Problem(1, "", "must be a JSON object")
    elif path == SETTINGS:
        if not isinstance(value.get("hooks", {}), dict):
            yield Problem(_line_of_key(data, "hooks"), "hooks", "must be an object")
    else:
        servers = value.get("mcpServers")
        if not isinstance(servers, dict):
            yield Problem(_line_of_key(data, "mcpServers") or 1, "mcpServers", "is required, and must be an object")
        else:
            yield from (
                Problem(_line_of_key(data, "mcpServers", name), f"mcpServers.{name}", "needs `command` or `url`")
                for name, server in servers.items()
                if not isinstance(server, dict) or not {"command", "url"} & server.keys()
            )


def _line_of_key(data: bytes, *keys: str) -> int | None:
    """The line of a key of a JSON object, each looked for behind the one before; None if it is written otherwise."""
    text, at = data.decode(), 0
    for key in keys:
        match = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:").search(text, at)
        if match is None:
            return None
        at = match.end()
    return text.count("\n", 0, at) + 1


def _whole(text: str) -> Problem:
    """A problem of a whole file, whose text may begin with a line."""
    if text.startswith("line ") and ": " in text:
        number, reason = text.removeprefix("line ").split(": ", 1)
        if number.isdigit():
            return Problem(int(number), "", reason)
    return Problem(None, "", text)


def _line_of(lines: dict[tuple[str | int, ...], int], field: str) -> int | None:
    """The line of a field such as ``landing.verify[0]``, or of the nearest part above it."""
    path: tuple[str | int, ...] = tuple(
        int(part) if part.isdigit() else part for part in field.replace("[", ".").replace("]", "").split(".") if part
    )
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path) if path else None
