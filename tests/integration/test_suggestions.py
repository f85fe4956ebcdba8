"""An answer to a mistyped command, option, value, id or name tells the similar ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.faces.cli.terminal.candidates import near
from tests.conftest import git
from tests.support.coordinated import Coordinated


@pytest.mark.req("FR-CLI-006", "NFR-USE-003")
def test_similar_names_of_each_kind_are_suggested(house: Coordinated) -> None:
    git(house.root, "branch", "feature/login")
    task = house.submit("Say hello to everybody", "true")
    other = ("0" if task[6] != "0" else "1").join((task[:6], task[7:8]))
    house.run("alias", "set", "waiting", "task list --status waiting")
    expected: dict[tuple[str, ...], str] = {
        ("taks", "list"): "Did you mean 'task'",
        ("wating",): "Did you mean 'waiting'",
        ("task", "lst"): "Did you mean 'list'?",
        ("task", "submit", "--titel", "x"): "Did you mean '--title'",
        ("task", "list", "--status", "runing"): "Did you mean 'running'",
        ("task", "detail", other): f"Did you mean '{task[:8]}'?",
        ("task", "detail", "say hello to everyone"): "Did you mean '1'?",
        ("merge", "submit", "feature/logn"): "Did you mean 'feature/login'?",
        ("agent", "show", "revewer"): "Did you mean 'reviewer'",
        ("task", "submit", "-t", "x", "-p", "x", "--agent", "Researchr"): "Did you mean 'researcher'?",
        ("config", "get", "landing.taget"): "Did you mean landing.target",
        ("--profile", "defualt", "task", "list"): "Did you mean 'default'?",
    }
    for command, suggestion in expected.items():
        error = _refused(house, *command)
        assert error["remedy"].startswith(suggestion), (command, error)
        assert len(error["remedy"]) > len(suggestion) + 10, "the remedy itself follows"
    assert "Did you mean" not in _refused(house, "task", "detail", "zzzzzzzz")["remedy"]


def _refused(house: Coordinated, *command: str) -> Any:
    done = house.run("--json", *command, check=False)
    assert done.returncode in (2, 3) and done.stdout == "", command
    return json.loads(done.stderr)["error"]


def test_a_name_its_beginning_and_a_title_are_near_and_nothing_else_is() -> None:
    known = [("1", "Say hello"), ("0b6f1c2d", "Say hello"), ("Boulder", "active"), ("BlueLake", "idle")]
    assert near("0b6f1c2e", known) == ["0b6f1c2d"]
    assert near("0b6f1c2e-b00c-409b-9da7-53b6f3099c22", known) == ["0b6f1c2d"]
    assert near("bouldre", known) == ["Boulder"]
    assert near("say helo", known) == ["1"]
    assert near("something else", known) == near("", known) == []
