"""Shell text that nobody would write, or only to do harm: it is read to its end, in time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corral.coordination.shell import lexer as shell_lexer
from corral.coordination.shell.danger import danger, target_directory
from corral.coordination.shell.reading import is_read_only
from tests.support.examples import examples
from tests.support.steps import lines_run

pytestmark = pytest.mark.one_python

SHELLISH = st.text(alphabet=" \n\t'\"\\$`(){}|&;<>#*?[]~=-!agits.\x00\r\u2028", max_size=60)
PIECES = r"""git stash add -A . && ; | ( ) $( ` ' " <<EOF EOF bash -c cd \ ${ } $' <( >& 2> find -exec"""
SCRAPS = st.lists(st.sampled_from([*PIECES.split(), "\n"]), max_size=25).map(" ".join)


@settings(max_examples=examples(1500), deadline=None)
@example("$''")
@given(st.text(max_size=80) | SHELLISH | SCRAPS)
def test_no_text_is_too_strange(text: str) -> None:
    danger(text)
    danger(f"git {text}")
    is_read_only(text)
    assert target_directory(f"cd x && {text}", Path("/w")).is_absolute()


@settings(max_examples=examples(300), deadline=None)
@given(st.text(max_size=60))
def test_quoted_text_is_data_and_what_follows_is_not(text: str) -> None:
    quoted = "'" + text.replace("'", "'\\''") + "'"
    assert danger(f"echo {quoted} git stash") is None
    risk = danger(f"echo {quoted}; git stash")
    assert risk is not None and risk.kind == "git stash"


UNITS = [
    "a;",
    "(",
    ")",
    "$(",
    "`",
    '"',
    "'",
    '"$(',
    "<<a\n",
    "<<a\na\n",
    "<<a <<b\n",
    "\n",
    "{",
    "${",
    "$'",
    "\\",
    ">",
    "a ",
    "(a;",
]
UNITS += [
    "'\"",
    '"`',
    "$((1<<2))\n",
    "bash -c '",
    "eval ",
    "sudo ",
    "if ",
    "find -exec ",
    "A=1 ",
    "<(",
    "#",
    "&&",
    "$x",
]


@pytest.mark.parametrize("unit", UNITS)
def test_the_work_grows_with_the_length_alone(unit: str) -> None:
    small, large = (("git stash;" + unit * size) for size in (150, 600))
    # Whatever is nested is followed to a fixed depth, so a constant may be added.
    assert (
        lines_run(shell_lexer, lambda: danger(large + " git"))
        <= 6 * lines_run(shell_lexer, lambda: danger(small + " git")) + 2_000
    )
    assert lines_run(shell_lexer, lambda: shell_lexer.read(large)) <= 25 * len(large) + 2_000


def test_what_a_very_long_text_ends_with_is_seen() -> None:
    """A megabyte with ``--all``."""
    risk = danger("(a 'x'; b); " * examples(84_000) + "git stash")
    assert risk is not None and risk.kind == "git stash"
    assert not is_read_only("ls " * examples(333_000))
