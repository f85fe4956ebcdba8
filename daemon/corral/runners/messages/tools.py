"""The six tools: their descriptions for the model, which of them an agent may use, and the call of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from corral.runners.messages import files, shell
from corral.runners.messages.paths import Confined, ToolError

Tool = dict[str, Any]

CLAUDE_CODE = {
    "Read": "read_file",
    "Write": "write_file",
    "Edit": "edit_file",
    "MultiEdit": "edit_file",
    "Glob": "list_files",
    "LS": "list_files",
    "Grep": "search",
    "Bash": "run_command",
}
"""The tools of Claude Code that agent definitions name, and their counterparts here."""

_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
_FILE = {"type": "string", "description": "Path of the file, relative to the working directory."}
_FOLDER = {"type": "string", "description": "Folder to look in; default: the working directory."}


def _tool(name: str, description: str, required: Sequence[str], **properties: Mapping[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"name": name, "description": description, "input_schema": schema}


TOOLS: tuple[Tool, ...] = (
    _tool(
        "read_file",
        "Read lines of a text file.",
        ["file_path"],
        file_path=_FILE,
        offset={"type": "integer", "description": "First line, counted from 1."},
        limit={"type": "integer", "description": "Number of lines; default 2000."},
    ),
    _tool("write_file", "Make or replace a file.", ["file_path", "content"], file_path=_FILE, content=_TEXT),
    _tool(
        "edit_file",
        "Replace old_string, which must be in the file exactly once, by new_string.",
        ["file_path", "old_string", "new_string"],
        file_path=_FILE,
        old_string=_TEXT,
        new_string=_TEXT,
    ),
    _tool(
        "list_files",
        "List files by a glob pattern such as `*.py` or `src/**/test_*.py`.",
        [],
        pattern=_TEXT,
        path=_FOLDER,
    ),
    _tool(
        "search",
        "Find the lines that match a regular expression of Python.",
        ["pattern"],
        pattern=_TEXT,
        path=_FOLDER,
        glob={"type": "string", "description": "Only files that match this, such as `*.py`."},
    ),
    _tool(
        "run_command",
        "Run a command with /bin/sh in the working directory. Processes that it leaves in the background are ended.",
        ["command"],
        command=_TEXT,
        timeout_s={**_NUMBER, "description": f"Seconds; default {shell.DEFAULT_S}, at most {shell.MAX_S}."},
    ),
)
NAMES = tuple(str(tool["name"]) for tool in TOOLS)


def allowed(tools: Collection[str] | None, disallowed: Collection[str] | None) -> list[str]:
    """The tools that an agent definition allows; a tool of Claude Code counts as its counterpart here.

    Patterns such as ``Bash(git *)`` cannot be kept here: a tool allowed only by one is not allowed, and one that is
    disallowed by one is disallowed.

    Args:
        tools: Its ``tools``; None: all.
        disallowed: Its ``disallowedTools``.
    """
    permitted = set(NAMES) if tools is None else {_own_name(name) for name in tools}
    refused = {_own_name(name.partition("(")[0].strip()) for name in disallowed or ()}
    return [name for name in NAMES if name in permitted and name not in refused]


def _own_name(name: str) -> str:
    return CLAUDE_CODE.get(name, name)


class Toolbox:
    """Executes calls of tools in a worktree.

    Args:
        root: The worktree.
        environ: The environment of its commands.
        names: The tools that may be called.
    """

    def __init__(self, root: Path, environ: Mapping[str, str], names: Collection[str]) -> None:
        confined = Confined(root)
        self.definitions = [tool for tool in TOOLS if tool["name"] in names]
        functions: dict[str, Callable[..., str]] = {
            "read_file": lambda **arguments: files.read_file(confined, **arguments),
            "write_file": lambda **arguments: files.write_file(confined, **arguments),
            "edit_file": lambda **arguments: files.edit_file(confined, **arguments),
            "list_files": lambda **arguments: files.list_files(confined, **arguments),
            "search": lambda **arguments: files.search(confined, **arguments),
            "run_command": lambda **arguments: shell.run_command(confined.root, environ, **arguments),
        }
        self._calls = {name: call for name, call in functions.items() if name in names}

    def call(self, name: str, arguments: object) -> tuple[str, bool]:
        """Call a tool; its answer for the model, and whether that is an error."""
        tool = next((tool for tool in self.definitions if tool["name"] == name), None)
        if tool is None:
            return f"There is no tool {name}; there are: {', '.join(self._calls)}.", True
        try:
            return self._calls[name](**_check_arguments(tool, arguments)), False
        except ToolError as error:
            return str(error), True
        except OSError as error:
            return f"{name}: {os.strerror(error.errno or 0)}", True


_KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}


def _check_arguments(tool: Tool, arguments: object) -> dict[str, Any]:
    """The arguments of a call, as the tool's schema wants them. Raises ToolError if they are not."""
    schema = tool["input_schema"]
    if not isinstance(arguments, dict):
        raise ToolError("The input is no object.")
    if missing := [name for name in schema["required"] if name not in arguments]:
        raise ToolError(f"The input lacks {', '.join(missing)}.")
    if unknown := [str(name) for name in arguments if name not in schema["properties"]]:
        raise ToolError(f"The input has an unknown field {', '.join(unknown)[:200]}.")
    for name, value in arguments.items():
        kind = schema["properties"][name]["type"]
        if not isinstance(value, _KINDS[kind]) or isinstance(value, bool):
            raise ToolError(f"{name} must be of the type {kind}.")
    return arguments
