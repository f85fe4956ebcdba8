"""What others wrote is shown, and neither obeyed nor taken for a line of Corral's own."""

from __future__ import annotations

import pytest

from corral.core.visible import log_text, one_line


def test_one_line_forges_no_line() -> None:
    assert one_line("fix it\n  ended    killed\tby\x1b[2K") == "fix it\\n  ended    killed\\tby\\x1b[2K"


@pytest.mark.parametrize(
    ("printed", "plain", "in_colour"),
    [
        ("ok\r\n", "ok\n", "ok\n"),
        ("10 %\r100 %\n", "10 %\n100 %\n", "10 %\n100 %\n"),
        ("\x1b[1;31mred\x1b[0m\n", "red\n", "\x1b[1;31mred\x1b[0m\n"),
        ("\x1b]0;title\x07\x1b[2J\x9b2J", "\\x1b]0;title\\x07\\x1b[2J\\x9b2J", "\\x1b]0;title\\x07\\x1b[2J\\x9b2J"),
        ("a\u202eb\tc", "a\\u202eb\tc", "a\\u202eb\tc"),
        ("\x1b[31", "\\x1b[31", "\\x1b[31"),
    ],
)
def test_a_log_keeps_its_lines_and_colours_and_nothing_else_that_a_terminal_obeys(
    printed: str, plain: str, in_colour: str
) -> None:
    assert log_text(printed, colours=False) == plain
    assert log_text(printed, colours=True) == in_colour
