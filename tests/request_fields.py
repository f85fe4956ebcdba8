"""``faces/cli/fields.json``: what commands know of the requests that they make. ``python -m tests.request_fields`` writes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

import corral.faces.cli
from corral.core.routing import PREFIX
from corral.daemon import nouns
from corral.faces.cli.app import app
from corral.faces.cli.asking import Asks
from corral.faces.http.openapi import document
from corral.faces.http.router import operations
from tests.commands_page import leaves

FILE = Path(corral.faces.cli.__file__).with_name("fields.json")


_FURTHEST = 2**31
"""A bound that nobody meets, and no help page shows."""
_BESIDE = {("POST /locks/check-commit", "paths")}
"""A field that a command fills by itself, and asks how much it takes."""
_NOTHING: tuple[Any, ...] = (None, "", [], {})
"""Defaults that a help page does not show."""


def asked() -> Iterator[tuple[str, Asks]]:
    """The commands that ask for one operation, by their whole names."""
    return ((name, command.asks) for name, command in leaves(app, "") if command.asks is not None)


def answers() -> dict[str, str]:
    """By operation: the type that it answers, by its name below ``corral``."""
    every = operations(nouns.every())
    return {
        _address(operation.route.method, operation.path): _name(operation.route.answer)
        for operation in every
        if operation.path.startswith(PREFIX)
    }


def _address(method: str, path: str) -> str:
    return f"{method.upper()} {path.removeprefix(PREFIX)}"


def _name(kind: Any) -> str:
    if get_origin(kind) is list:
        return f"{_name(kind.__args__[0])}[]"
    if isinstance(kind, type) and get_origin(kind) is None:
        return f"{kind.__module__}.{kind.__name__}".removeprefix("corral.")
    where = sorted(sys.modules, key=lambda name: (not name.endswith((".api", ".wire")), name))
    modules = [sys.modules[name] for name in where if name.startswith("corral.")]
    names = (
        f"{module.__name__}.{name}"
        for module in modules
        for name, value in vars(module).items()
        if type(value) is type(kind) and value == kind
    )
    return next(names, "").removeprefix("corral.")


def requests() -> dict[str, dict[str, dict[str, Any]]]:
    """By operation and field of its request: the JSON Schema, with ``required``."""
    described = document(operations(nouns.every()))
    named: dict[str, Any] = described["components"]["schemas"]

    def resolved(schema: Mapping[str, Any]) -> dict[str, Any]:
        shape = named[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
        return {**shape, **schema}

    made: dict[str, dict[str, dict[str, Any]]] = {}
    for path, verbs in described["paths"].items():
        if not path.startswith(PREFIX):
            continue
        for verb, operation in verbs.items():
            fields: dict[str, dict[str, Any]] = {}
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    fields[parameter["name"]] = {**resolved(parameter["schema"]), "required": parameter["required"]}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                body = next(resolved(schema) for schema in content["schema"].get("anyOf", [content["schema"]]))
                for name, schema in body.get("properties", {}).items():
                    fields[name] = {**resolved(schema), "required": name in body.get("required", ())}
            for name, schema in [*fields.items()]:
                choices = [resolved(choice) for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
                lists = [choice for choice in choices if choice["type"] == "array"]
                fields[name] = {**(lists or choices or [{}])[0], **schema}
                if "items" in fields[name]:
                    fields[name]["items"] = resolved(fields[name]["items"])
                for inner, below in fields[name].get("properties", {}).items():
                    kinds = [resolved(kind) for kind in below.get("anyOf", ()) if kind.get("type") != "null"]
                    fields[f"{name}.{inner}"] = {**(kinds or [{}])[0], **below, "required": False}
            made[_address(verb, path)] = fields
    return made


def content() -> dict[str, dict[str, Any]]:
    """What the file has to have."""
    known, answer = requests(), answers()
    needed: dict[str, dict[str, dict[str, Any]]] = {}
    named = {*_BESIDE, *((asks.operation, field.name) for _, asks in asked() for field in asks.fields)}
    for operation in {*(asks.operation for _, asks in asked()), *(operation for operation, _ in _BESIDE)}:
        fields = (field for asked_for, field in named if asked_for == operation)
        needed[operation] = {field: _of(known[operation][field]) for field in fields}
    return {name: {"answer": answer[name], "takes": dict(sorted(needed[name].items()))} for name in sorted(needed)}


def _of(schema: dict[str, Any]) -> dict[str, Any]:
    item = schema.get("items", schema)
    about = {
        "about": schema.get("description", ""),
        "type": item["type"] + "[]" * ("items" in schema),
        "choices": item.get("enum"),
        "min": _least(schema),
        "max": most if (most := schema.get("maximum")) is not None and most < _FURTHEST else None,
        "most": schema.get("maxItems"),
        "default": None if schema.get("default") in _NOTHING else schema["default"],
        "required": schema["required"] or None,
    }
    return {name: value for name, value in about.items() if value is not None}


def _least(schema: dict[str, Any]) -> float | None:
    above = schema.get("exclusiveMinimum")
    return above + 1 if above is not None and schema["type"] == "integer" else schema.get("minimum")


def text() -> str:
    """The file: a line for each operation."""
    lines = [f"{json.dumps(name)}: {json.dumps(fields, ensure_ascii=False)}" for name, fields in content().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
