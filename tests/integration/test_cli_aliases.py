"""``corral alias``: own names for commands, at the command line and in the files."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.support.coordinated import Coordinated


@pytest.mark.req("FR-CLI-009")
def test_an_alias_is_set_listed_used_and_removed(house: Coordinated) -> None:
    assert house.json("alias", "list") == []
    house.run("alias", "set", "do", "task submit --title $1 --command $command $@")
    (row,) = house.json("alias", "list")
    assert (row["name"], row["source"], row["approved"]) == ("do", ".corral/local.yaml", True)
    task = json.loads(house.run("do", "Hello; ls $HOME", "--command", "true", "--priority", "7", "--json").stdout)
    assert task["title"] == "Hello; ls $HOME"
    assert json.loads(house.run("-v", "-C", ".", "do", "x", "--json", "--command", "true").stdout)["title"] == "x"
    assert house.json("task", "list", "--priority", "7")[0]["task_id"] == task["task_id"]
    missing = house.run("do", check=False)
    assert missing.returncode == 2 and "needs $1" in missing.stderr
    house.run("alias", "remove", "do")
    assert "No such command 'do'" in house.run("do", check=False).stderr
    assert house.run("alias", "remove", "do", check=False).returncode == 3


@pytest.mark.req("FR-CLI-009")
def test_an_alias_of_the_file_works_at_once_unless_it_executes_something(house: Coordinated) -> None:
    config = house.root / ".corral" / "config.yaml"
    commands = {
        "mine": "task list --status $1",
        "say": "task submit -t hi --command 'echo hi'",
        "again": "say --json",
        "task": "status",
    }
    config.write_text(config.read_text() + yaml.safe_dump({"alias": commands}))
    assert house.run("mine", "pending", "--json").stdout == "[]\n"
    rows = {row["name"]: row for row in house.json("alias", "list")}
    assert (rows["mine"]["approved"], rows["say"]["approved"], rows["task"]["hidden"]) == (True, False, True)
    for name in ("say", "again"):
        done = house.run(name, check=False)
        assert done.returncode == 2 and "echo hi" in done.stderr and "corral trust" in done.stderr
    assert house.json("task", "list") == []
    assert "echo hi" in house.run("trust", "--yes").stdout
    assert json.loads(house.run("again").stdout)["title"] == "hi"
    assert house.json("config", "validate")["warnings"] == []


@pytest.mark.req("FR-CLI-009")
def test_what_cannot_be_an_alias_is_refused(house: Coordinated) -> None:
    house.run("alias", "set", "a", "task list")
    house.run("alias", "set", "b", "a --json")
    before = (house.root / ".corral" / "local.yaml").read_bytes()
    for args, why in (
        (("task", "merge list"), "cannot hide it"), (("a", "b"), "calls itself: a -> b -> a"), (("x", "x"), "calls itself"),
        (("x", "taks list"), "Did you mean"), (("x y", "task list"), "cannot be the name"),
        (("x", "task 'list"), "cannot be read"),
    ):  # fmt: skip
        done = house.run("alias", "set", *args, check=False)
        assert done.returncode == 2 and why in done.stderr, args
    assert (house.root / ".corral" / "local.yaml").read_bytes() == before
    (house.root / ".corral" / "local.yaml").write_text("alias: {a: b, b: a}\n")
    done = house.run("a", check=False)
    assert done.returncode == 2 and "calls itself: a -> b -> a" in done.stderr
    (house.root / ".corral" / "local.yaml").write_text("alias: 5\n")
    assert house.run("task", "list").returncode == 0, "commands never read aliases"
    assert house.run("a", check=False).returncode == 2


def test_an_agent_can_set_an_alias_but_not_approve_it(house: Coordinated) -> None:
    done = house.run("alias", "set", "do", "task submit -t x --command true", CLAUDECODE="1")
    assert "until a person has approved it: corral trust" in done.stderr
    assert "approved" not in house.run("alias", "set", "mine", "task submit -t x --command true").stderr
    assert [row["approved"] for row in house.json("alias", "list")] == [False, True]
