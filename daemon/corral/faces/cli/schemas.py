"""The JSON Schema of what each command prints with ``--json``."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from corral.faces.cli.app import app
from corral.faces.cli.parsing import Group

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@functools.cache
def schemas() -> dict[str, dict[str, Any]]:
    """The schemas by command, such as ``task list``."""
    return {name: _schema(f"corral {name} --json", answer) for name, answer in sorted(_answers(app, ""))}


def error_schema() -> dict[str, Any]:
    """The schema of an error."""
    return _schema("An error, on stderr", "core.answers.Refusal")


def _answers(group: Group, path: str) -> Iterator[tuple[str, str]]:
    """What the commands below a group print as JSON: their whole names, and the names of types."""
    for name in group.list_commands():
        command = group.get_command(name)
        if isinstance(command, Group):
            yield from _answers(command, f"{path}{name} ")
        elif command is not None and command.prints:
            yield f"{path}{name}", command.prints


def _schema(title: str, answer: str) -> dict[str, Any]:
    module, _, name = answer.removesuffix("[]").rpartition(".")
    kind: Any = getattr(importlib.import_module(f"corral.{module}"), name)
    many: Any = list[kind]
    content = TypeAdapter(many if answer.endswith("[]") else kind).json_schema(mode="serialization")
    return {"$schema": DIALECT, "title": title, **_without_titles(content)}


def _without_titles(schema: Any) -> Any:
    """A JSON Schema without the titles that pydantic makes of names."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)
    }
