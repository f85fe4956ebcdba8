"""The document explains every operation, and its examples have the fields that real answers have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests import api_story
from tests.api_story import DOCUMENT, TYPES
from tests.support.coordinated import Coordinated

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
    statuses = set(operation["responses"])
    (success,) = statuses - {"4XX", "5XX"}
    assert statuses > {"4XX", "5XX"} and success in ("200", "201", "202")
    for status, response in operation["responses"].items():
        assert response["content"], name
        for kind, content in response["content"].items():
            if kind == "application/json":
                check(content["example"], content["schema"])
            assert "example" in content
            assert status == success or set(content["example"]["error"]) >= {
                "code",
                "name",
                "message",
                "cause",
                "remedy",
            }


def test_no_summary_is_of_two_operations() -> None:
    assert len({operation["summary"] for operation in OPERATIONS.values()}) == len(OPERATIONS)


def test_the_examples_can_be_asked_and_are_answered_as_is_declared(
    coordinate: Callable[..., Coordinated],
) -> None:
    story = api_story.play(coordinate(config=api_story.CONFIG))
    assert not story.wrong, "\n".join(story.wrong)
    assert len(story.told) > len(TYPES) * 0.75


def test_every_shape_has_a_name_of_its_own() -> None:
    assert not [name for name in DOCUMENT["components"]["schemas"] if "__" in name]
