"""The document explains every operation, and its examples have the fields that real answers have."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from corral.faces.http.router import Operation
from tests import api_story
from tests.api_story import DOCUMENT

OPERATIONS: dict[str, dict[str, Any]] = {
    f"{method.upper()} {path.removeprefix('/api/v1')}": operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}


def check(example: Any, schema: dict[str, Any]) -> None:
    jsonschema.validate(example, {**schema, "components": DOCUMENT["components"]})


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_operation_is_explained(name: str) -> None:
    operation = OPERATIONS[name]
    assert 3 < len(operation["summary"]) <= 100 and "_" not in operation["summary"].split("`")[0]
    assert operation["description"].startswith(operation["summary"].replace("`", "``"))
    for content in operation.get("requestBody", {"content": {}})["content"].values():
        check(content["example"], content["schema"])
    success, *refused = operation["responses"]
    assert success in ("200", "201", "202") and {"4XX", "5XX"} <= {*refused}
    for kind, content in operation["responses"][success]["content"].items():
        if kind == "application/json":
            check(content["example"], content["schema"])
        assert "example" in content
    for status in refused:
        content = _referred(operation["responses"][status])["content"]["application/json"]
        names = content["schema"]["properties"]["error"]["properties"]["name"]["enum"]
        assert names == sorted(content["examples"])
        for example in map(_referred, content["examples"].values()):
            check(example["value"], content["schema"])


def _referred(part: dict[str, Any]) -> dict[str, Any]:
    """A part of the document, or what it refers to there."""
    if "$ref" not in part:
        return part
    _components, kind, name = part["$ref"].removeprefix("#/").split("/")
    known: dict[str, Any] = DOCUMENT["components"][kind][name]
    return known


@pytest.mark.parametrize("operation", api_story.OPERATIONS, ids=api_story.name_of)
def test_every_declared_error_stands_under_its_status(operation: Operation) -> None:
    responses = DOCUMENT["paths"][operation.path][operation.route.method.lower()]["responses"]
    for error in operation.errors:
        assert f"`{error.name}` ({error.code})" in responses[str(error.status)]["description"]


def test_no_summary_is_of_two_operations() -> None:
    assert len({operation["summary"] for operation in OPERATIONS.values()}) == len(OPERATIONS)


def test_every_shape_has_a_name_of_its_own() -> None:
    assert not [name for name in DOCUMENT["components"]["schemas"] if "__" in name]
