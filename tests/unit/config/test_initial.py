"""What ``corral init`` writes is valid, says what was asked for, and is worth reading."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from corral.config.document import read_mapping
from corral.config.initial import default_config
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
