"""``corral schema`` describes what every command prints, and what every command prints is what it describes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from typing_extensions import TypedDict

from corral.faces.cli.schemas import schemas
from tests import schema_story
from tests.commands_page import with_json
from tests.support.answers import problems, unlike
from tests.support.coordinated import Coordinated

NOT_PLAYED = {"demo", "mcp", "statusline"}
"""Commands without JSON."""


@pytest.mark.req("FR-CLI-004", "NFR-USE-005", "NFR-USE-004")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow("Some hundred commands on one repository, with their tasks and merges.")
def test_every_command_prints_what_its_schema_says(sealed: Path, tmp_path: Path) -> None:
    """The commands run in this process, which does not end after each: their connections are closed late."""
    root = tmp_path / "repo"
    schema_story.make_repository(root)
    answers = schema_story.play(root)
    known = schemas()
    assert set(known) == with_json() == {command.partition(" --")[0] for command, _ in answers}
    wrong = []
    for command, answer in answers:
        wrong += [f"{command}: {problem}" for problem in problems(known[command.partition(" --")[0]], answer)]
    assert not wrong, "\n".join(dict.fromkeys(wrong))


def test_every_schema_is_one_and_names_its_command() -> None:
    for name, schema in schemas().items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["title"] == f"corral {name} --json"


def test_a_schema_needs_no_repository_and_a_mistyped_command_is_named(tmp_path: Path) -> None:
    anywhere = Coordinated(tmp_path)
    schema = json.loads(anywhere.run("schema", "task", "list").stdout)
    item = schema["$defs"][schema["items"]["$ref"].rpartition("/")[2]] if "$ref" in schema["items"] else schema["items"]
    assert schema["type"] == "array" and {"task_id", "title", "outcome"} <= {*item["properties"]}
    assert anywhere.json("schema", "task", "list") == schema
    every = anywhere.json("schema")
    assert set(every["commands"]) == with_json() and every["error"]["required"] == ["error"]
    for words, suggestion in ((("task", "lst"), "task list"), (("task",), "task detail"), (("demo",), "corral schema")):
        done = anywhere.run("schema", *words, check=False)
        assert done.returncode == 3 and suggestion in done.stderr


class Inner(TypedDict):
    c: str | None


class Answer(TypedDict):
    a: int
    b: list[Inner]


def test_a_field_that_is_not_described_would_be_found() -> None:
    assert unlike(Answer, {"a": 1, "b": [{"c": None}]}) == []
    for wrong in ({"a": 2, "b": [], "z": 1}, {"a": 2}, {"a": "x", "b": []}, {"a": 2, "b": [{"c": 1}]}):
        assert unlike(Answer, wrong), wrong
