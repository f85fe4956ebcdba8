"""What ``corral init`` writes is valid, says what was asked for, and is worth reading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.config.document import read_mapping
from corral.config.initial import default_config, likely_verification
from corral.config.load import Loaded

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def test_it_loads_without_a_warning_and_holds_the_defaults(loading: Callable[..., Loaded]) -> None:
    loaded = loading(team=default_config("main", ["pytest -q", "ruff check ."]))
    assert loaded.warnings == []
    assert loaded.settings.landing.target == "main"
    assert loaded.settings.landing.verify == ["pytest -q", "ruff check ."]
    assert loaded.settings.model_copy(update={"landing": loading().settings.landing}) == loading().settings


def test_without_a_command_the_list_is_empty(loading: Callable[..., Loaded]) -> None:
    loaded = loading(team=default_config("trunk", []))
    assert loaded.settings.landing.verify == []
    assert loaded.sources["landing.verify"] == ".corral/config.yaml"


@given(target=TEXT, verify=st.lists(TEXT, max_size=3))
def test_any_text_comes_back_as_it_was(target: str, verify: list[str]) -> None:
    landing = read_mapping(default_config(target, verify).encode())["landing"]
    assert landing["target"] == target
    assert landing["verify"] == verify


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"package.json": '{"scripts": {"test": "xo && ava"}}', "Makefile": "test:\n"}, "npm test"),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, None),
        ({"package.json": '{"name": "x"}', "Makefile": "all: a\ncheck: all\n"}, "make check"),
        ({"Cargo.toml": ""}, "cargo test"),
        ({"go.mod": ""}, "go test ./..."),
        ({"pom.xml": ""}, "mvn -q test"),
        ({"gradlew": ""}, "./gradlew test"),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "python3 -m pytest -q"),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, None),
        ({"Makefile": "all:\n\t./test: x\n"}, None),
        ({}, None),
    ],
)
def test_the_test_command_that_is_shown_is_the_projects_own(
    tmp_path: Path, files: dict[str, str], command: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert likely_verification(tmp_path) == command
