"""``/openapi.json``: every operation as its declaration has it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import TypeAdapter

from corral import __version__
from corral.core.answers import Refusal
from corral.core.errors import CorralError
from corral.faces.http import examples
from corral.faces.http.access import Unauthorised
from corral.faces.http.connections import TooLarge
from corral.faces.http.router import COMMON, Argument, Operation, sentence

EVERY = COMMON | {Unauthorised, TooLarge}
"""The errors of every operation, those that are answered before it is looked for among them."""
LINK = {
    "description": 'Where a list goes on, as `<address>; rel="next"`; it is missing where nothing was left out.',
    "schema": {"type": "string"},
}
JSON = "application/json"


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document of these operations, in their order."""
    shapes = _Shapes(known := [*operations])
    paths: dict[str, dict[str, Any]] = {}
    for operation in known:
        paths.setdefault(operation.path, {})[operation.route.method.lower()] = _described(operation, shapes)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Corral",
            "description": "Many Claude Code sessions on one git repository.",
            "version": __version__,
        },
        "paths": paths,
        "components": {
            "schemas": shapes.named,
            "responses": {
                f"{kind}XX": _refusal(
                    [error for error in _by_name(EVERY) if error.status // 100 == kind], shapes.refusal
                )
                for kind in (4, 5)
            },
            "examples": {
                error.name: {"value": error(f"{sentence(error.__doc__)}.").to_wire()}
                for error in _by_name(EVERY.union(*(operation.errors for operation in known)))
            },
        },
    }


class _Shapes:
    """The JSON Schemas of all that operations take and answer.

    Attributes:
        named: Those that have a name.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        inputs: list[tuple[Any, Any, TypeAdapter[Any]]] = [("refusal", "serialization", TypeAdapter(Refusal))]
        for operation in operations:
            inputs.append(((id(operation), ""), "serialization", TypeAdapter(operation.route.answer)))
            inputs += [
                ((id(operation), argument.name), "validation", argument.adapter) for argument in operation.arguments
            ]
        made, defined = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")
        self._made = {key: schema for (key, _mode), schema in made.items()}
        self.named = defined["$defs"]

    def of(self, operation: Operation, argument: str = "") -> dict[str, Any]:
        """The schema of an argument of an operation; without one, of what it answers."""
        return {**self._made[id(operation), argument]}

    @property
    def refusal(self) -> dict[str, Any]:
        """The schema of an error."""
        return {**self._made["refusal"]}

    def fields(self, operation: Operation, argument: str) -> tuple[dict[str, Any], list[str]]:
        """The fields of a model, and which of them are required."""
        schema = self.of(operation, argument)
        schema = self.named[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        return schema["properties"], schema.get("required", [])


def _described(operation: Operation, shapes: _Shapes) -> dict[str, Any]:
    route = operation.route
    parameters = [*_parameters(operation, shapes)]
    made: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.about,
        "operationId": f"{operation.tag.removesuffix('s')}.{route.handler.__name__}",
        "x-scope": route.scope.value,
        "x-changes": route.changes,
    }
    if parameters:
        made["parameters"] = parameters
    for body in (argument for argument in operation.arguments if argument.place == "body"):
        schema = shapes.of(operation, body.name)
        made["requestBody"] = {"content": {JSON: {"schema": schema, "example": examples.asked(schema, shapes.named)}}}
        if body.default is inspect.Parameter.empty:
            made["requestBody"]["required"] = True
    schema = shapes.of(operation)
    content = {"schema": schema, "example": examples.example(schema, shapes.named)}
    success: dict[str, Any] = {"description": "Success.", "content": {route.media: content}}
    if any(parameter["name"] in ("after", "before") for parameter in parameters) and route.media == JSON:
        success["headers"] = {"Link": LINK}
    made["responses"] = {str(route.status): success}
    own = {status: _refusal(errors, shapes.refusal) for status, errors in _by_status(operation.errors).items()}
    made["responses"] |= own | {kind: {"$ref": f"#/components/responses/{kind}"} for kind in ("4XX", "5XX")}
    return made


def _by_status(errors: Iterable[type[CorralError]]) -> dict[str, list[type[CorralError]]]:
    """The errors that an operation has of its own by status, each beside those of every operation that have it too."""
    own = {error.status for error in errors}
    return {
        str(status): [error for error in _by_name({*errors, *EVERY}) if error.status == status]
        for status in sorted(own)
    }


def _by_name(errors: Iterable[type[CorralError]]) -> list[type[CorralError]]:
    return sorted(errors, key=lambda error: error.name)


def _refusal(errors: list[type[CorralError]], refusal: dict[str, Any]) -> dict[str, Any]:
    """The response that one of these errors is."""
    names = [error.name for error in errors]
    schema = {**refusal, "properties": {"error": {"properties": {"name": {"enum": names}}}}}
    shown = {name: {"$ref": f"#/components/examples/{name}"} for name in names}
    return {
        "description": "\n".join(f"`{error.name}` ({error.code}): {error.default_cause}" for error in errors),
        "content": {JSON: {"schema": schema, "examples": shown}},
    }


def _parameters(operation: Operation, shapes: _Shapes) -> Iterator[dict[str, Any]]:
    for argument in operation.arguments:
        if argument.fields:
            fields, required = shapes.fields(operation, argument.name)
            for name, schema in fields.items():
                yield _parameter(name, "query", name in required, schema)
        elif argument.place != "body":
            yield _parameter(argument.alias, argument.place, *_schema(argument, shapes.of(operation, argument.name)))


def _schema(argument: Argument, schema: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether it is required, and its schema with its default."""
    if argument.default is inspect.Parameter.empty:
        return True, schema
    default = argument.default
    return False, schema if default is None else {**schema, "default": [*default] if argument.is_list else default}


def _parameter(name: str, place: str, is_required: bool, schema: dict[str, Any]) -> dict[str, Any]:
    description = {"description": schema["description"]} if "description" in schema else {}
    return {"name": name, "in": place, "required": is_required, "schema": schema, **description}
