"""``faces/cli/fields.json``: what commands know of the requests that they make. ``python -m tests.request_fields`` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
_NOTHING: tuple[Any, ...] = (None, "", [], {})
"""Defaults that a help page does not show."""


def asked() -> Iterator[tuple[str, Asks]]:
    """The commands that ask for one operation, by their whole names."""
    return ((name, command.asks) for name, command in leaves(app, "") if command.asks is not None)


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
            for one in operation.get("parameters", ()):
                if one["in"] == "query":
                    fields[one["name"]] = {**resolved(one["schema"]), "required": one["required"]}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                body = next(resolved(one) for one in content["schema"].get("anyOf", [content["schema"]]))
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
            made[f"{verb.upper()} {path.removeprefix(PREFIX)}"] = fields
    return made


def content() -> dict[str, dict[str, dict[str, Any]]]:
    """What the file has to have."""
    known, needed = requests(), dict[str, dict[str, dict[str, Any]]]()
    for _, asks in asked():
        fields = needed.setdefault(asks.operation, {})
        fields |= {field.name: _of(known[asks.operation][field.name]) for field in asks.fields}
    return {operation: dict(sorted(fields.items())) for operation, fields in sorted(needed.items())}


def _of(schema: dict[str, Any]) -> dict[str, Any]:
    item = schema.get("items", schema)
    about = {
        "about": schema.get("description", ""),
        "type": item["type"] + "[]" * ("items" in schema),
        "choices": item.get("enum"),
        "min": _least(schema),
        "max": most if (most := schema.get("maximum")) is not None and most < _FURTHEST else None,
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
