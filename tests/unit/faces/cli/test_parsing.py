"""The parser of command lines: what words are read into, what is refused, and in which words."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest

from corral.faces.cli.help import page_of
from corral.faces.cli.parsing import Argument, Context, Exit, Group, HelpWanted, Option, UsageError, run


class Colour(str, Enum):
    """Something to choose from."""

    RED = "red"
    BLUE = "blue"


DEFAULTS = {
    "target": "here",
    "name": "",
    "share": 0.0,
    "colour": Colour.RED,
    "check": True,
    "more": None,
    "tag": None,
    "count": None,
    "folder": None,
    "quiet": False,
    "all_": False,
}


def program() -> Group:
    """A program whose commands return what they were called with."""
    group, below = Group("A program."), Group("A noun.")
    group.add(below, "noun")

    @below.command()
    def copy_all(
        source: Annotated[str, Argument(metavar="SOURCE", help="From where.")],
        more: Annotated[list[str] | None, Argument(metavar="MORE", help="What else.")] = None,
        target: Annotated[str, Argument(metavar="TARGET", help="Where to.")] = "here",
        name: Annotated[str, Option("--name", "-n", help="A name.", envvar="TEST_NAME")] = "",
        tag: Annotated[list[str] | None, Option("--tag", "-t", help="Repeatable.", metavar="TAG")] = None,
        count: Annotated[int | None, Option("--count", min=1, max=5, help="How often.")] = None,
        share: Annotated[float, Option("--share", min=0, max=1, help="A part.")] = 0,
        colour: Annotated[Colour, Option("--colour", help="Which one.")] = Colour.RED,
        folder: Annotated[Path | None, Option("--folder", file_okay=False, help="A folder.")] = None,
        quiet: Annotated[bool, Option("--quiet", "-q", help="Say nothing.")] = False,
        all_: Annotated[bool, Option("--all", "-a", help="All.")] = False,
        check: Annotated[bool, Option("--check/--no-check", help="Check it.")] = True,
    ) -> dict[str, Any]:
        """Copy things. And say so.

        A second paragraph.
        """
        return {name: value for name, value in locals().items() if value != DEFAULTS.get(name)}

    @below.command("key", any_words=True)
    def key(context: Context, file: Annotated[bool, Option("--file", help="A file.")] = False) -> Any:
        return context.args, file

    @group.command()
    def fail(code: Annotated[int, Argument(metavar="CODE", help="A code.")], *, must: Annotated[str, Option()]) -> None:
        raise Exit(code)

    return group


def read(*words: str) -> Any:
    """What the command ``noun copy-all`` was called with, without defaults."""
    return run(program(), "test", ["noun", "copy-all", *words])


@pytest.mark.parametrize(
    ("words", "read_as"),
    [
        ("x", {"source": "x"}),
        ("x -n a", {"source": "x", "name": "a"}),
        ("-n a x", {"source": "x", "name": "a"}),
        ("x -na", {"source": "x", "name": "a"}),
        ("x -n=a", {"source": "x", "name": "=a"}),
        ("x --name=a=b", {"source": "x", "name": "a=b"}),
        ("x --name=", {"source": "x"}),
        ("x --name --quiet", {"source": "x", "name": "--quiet"}),
        ("x -qa", {"source": "x", "quiet": True, "all_": True}),
        ("x -qna", {"source": "x", "quiet": True, "name": "a"}),
        ("x -n a -n b", {"source": "x", "name": "b"}),
        ("x -t a --tag b", {"source": "x", "tag": ["a", "b"]}),
        ("-- -q", {"source": "-q"}),
        ("- -q", {"source": "-", "quiet": True}),
        ("x y", {"source": "x", "target": "y"}),
        ("x y z", {"source": "x", "more": ["y"], "target": "z"}),
        ("x -q y -a z -- -n", {"source": "x", "more": ["y", "z"], "target": "-n", "quiet": True, "all_": True}),
        ("x --no-check", {"source": "x", "check": False}),
        ("x --no-check --check", {"source": "x"}),
        ("x --count 5", {"source": "x", "count": 5}),
        ("x --count +2", {"source": "x", "count": 2}),
        ("x --count 2.0", {"source": "x", "count": 2}),
        ("x --share 0.5", {"source": "x", "share": 0.5}),
        ("x --colour blue", {"source": "x", "colour": Colour.BLUE}),
        ("x --folder /nowhere/at/all", {"source": "x", "folder": Path("/nowhere/at/all")}),
    ],
)
def test_words_are_read(words: str, read_as: dict[str, Any]) -> None:
    assert read(*words.split()) == read_as


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Missing argument 'SOURCE'."),
        ("x --nam a", "No such option '--nam'."),
        ("x -qz", "No such option '-z'."),
        ("x -n", "Option '-n' requires an argument."),
        ("x --name", "Option '--name' requires an argument."),
        ("x --quiet=1", "Option '--quiet' does not take a value."),
        ("x --count 0", "Invalid value for '--count': Input should be greater than or equal to 1"),
        ("x --count 6", "Invalid value for '--count': Input should be less than or equal to 5"),
        ("x --share nan", "Invalid value for '--share': Input should be less than or equal to 1"),
        (
            "x --count 1.5",
            "Invalid value for '--count': Input should be a valid integer, unable to parse string as an integer",
        ),
        (
            "x --share ٣",
            "Invalid value for '--share': Input should be a valid number, unable to parse string as a number",
        ),
        ("x --colour Red", "Invalid value for '--colour': 'Red' is not one of 'red', 'blue'."),
        (f"x --folder {__file__}", f"Invalid value for '--folder': dir {__file__!r} is a file."),
        ("x --colour no --count 9", "Invalid value for '--colour': 'no' is not one of 'red', 'blue'."),
        ("x --count 9 --colour no", "Invalid value for '--count': Input should be less than or equal to 5"),
    ],
)
def test_what_is_wrong_first_is_said(words: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(*words.split())
    assert refused.value.message == message
    assert refused.value.context.path == "test noun copy-all"


@pytest.mark.parametrize(
    ("words", "message", "known"),
    [
        (["nuon"], "No such command 'nuon'.", ["fail", "noun"]),
        (["noun", "--"], "Missing command.", []),
        (["noun", "--", "-q"], "No such option '-q'.", []),
        (["noun", "-q", "copy-all"], "No such option '-q'.", []),
        (["fail", "1", "2", "\x1b", "--must", "x"], "Got unexpected extra argument(s) (2 \\x1b)", []),
        (["fail", "1"], "Missing option '--must'.", []),
        (["noun", "copy-all", "--nme"], "No such option '--nme'.", None),
    ],
)
def test_commands_and_options_that_do_not_exist_are_told_with_those_that_do(
    words: list[str], message: str, known: list[str] | None
) -> None:
    with pytest.raises(UsageError) as refused:
        run(program(), "test", words)
    assert refused.value.message == message
    if known is None:
        known = [f"--{name}" for name in ("name", "tag", "count", "share", "colour", "folder", "quiet", "all", "check")]
    assert list(refused.value.known) == known


def test_a_variable_gives_a_value_unless_the_command_line_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_NAME", "from outside")
    assert read("x")["name"] == "from outside"
    assert read("x", "-n", "own")["name"] == "own"


def test_a_command_may_take_any_words_and_end_with_a_code() -> None:
    assert run(program(), "test", ["noun", "key", "--zz", "a", "-yx", "--file"]) == (["--zz", "a", "-yx"], True)
    with pytest.raises(Exit) as ended:
        run(program(), "test", ["fail", "7", "--must", "x"])
    assert ended.value.code == 7


@pytest.mark.parametrize(
    ("words", "by_option", "path"),
    [
        ([], False, "test"),
        (["noun"], False, "test noun"),
        (["--help", "nothing"], True, "test"),
        (["noun", "copy-all", "--count", "9", "-h"], True, "test noun copy-all"),
    ],
)
def test_help_is_wanted_by_its_option_or_for_want_of_a_command(words: list[str], by_option: bool, path: str) -> None:
    with pytest.raises(HelpWanted) as wanted:
        run(program(), "test", words)
    assert (wanted.value.by_option, wanted.value.context.path) == (by_option, path)


def test_a_help_page_says_what_a_parameter_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(HelpWanted) as wanted:
        read("--help")
    page = page_of(wanted.value.context)
    usage = "Usage: test noun copy-all [OPTIONS] {SOURCE} [MORE]... [TARGET]"
    assert page.startswith(f"{usage}\n\n  Copy things. And say so.\n\n  A second paragraph.\n\nArguments:\n")
    lines = [" ".join(line.split()) for line in page.splitlines()]
    for line in (
        "  SOURCE <str>      From where.  [required]",
        "  MORE <list[str]>  What else.",
        "  TARGET <str>      Where to.  [default: here]",
        "  -n, --name <str>        A name.  [env var: TEST_NAME]",
        "  -t, --tag TAG           Repeatable.",
        "  --count <int range>     How often.  [1<=x<=5]",
        "  --share <float range>   A part.  [default: 0; 0<=x<=1]",
        "  --colour <red|blue>     Which one.  [default: red]",
        "  --folder <dir>          A folder.",
        "  --check / --no-check    Check it.  [default: check]",
        "  -h, --help              Show this message and exit.",
    ):
        assert " ".join(line.split()) in lines, page
