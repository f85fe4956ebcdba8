"""Progress of commands that take long, on a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.coordinated import Coordinated
from tests.support.terminals import on_terminal

PROGRAM = """
import sys, time
from corral.faces.cli.terminal.context import Common
from corral.faces.cli.terminal.progress import progress
Common.quiet = "--quiet" in sys.argv
with progress("the first step") as update:
    time.sleep(3)
    print("a result", flush=True)
    update("half of it [bold]", 1, 2)
    time.sleep(0.3)
    with progress("an inner step"):
        time.sleep(0.3)
    update.show("a row")
    update("nearly", 3, 4)
    time.sleep(0.3)
with progress("done at once"):
    pass
"""


@pytest.mark.req("FR-CLI-005")
def test_progress_is_a_spinner_or_a_bar_drawn_ten_times_a_second_and_gone_at_the_end(tmp_path: Path) -> None:
    screen = on_terminal(["-c", PROGRAM], cwd=tmp_path, stdout=False)
    first, rest = screen.written.split(" 50%", 1)
    frames = first.count("the first step")
    assert frames >= 12, "2.3 s are shown, 12 times a second; a loaded machine leaves out half"
    assert "%" not in first and "⠋" in first
    assert " 75%" in rest and "half of it [bold]" in screen.written
    assert "an inner step" in rest and rest.index("an inner step") < rest.rindex("half of it")
    assert "done at once" not in screen.written
    assert screen.stdout == "a result\na row\n", "a pipe gets what is printed and no progress"
    assert screen.written.endswith("\x1b[2K") and screen.written.count("\x1b[?25h") >= 1


@pytest.mark.req("FR-CLI-005")
def test_without_a_terminal_with_quiet_and_on_a_dumb_terminal_there_is_none(tmp_path: Path) -> None:
    program = PROGRAM.replace("sleep(3)", "sleep(0.9)")
    assert on_terminal(["-c", program, "--quiet"], cwd=tmp_path, stdout=False).written == ""
    assert on_terminal(["-c", program], cwd=tmp_path, stdout=False, TERM="dumb").written == ""
    plain = on_terminal(
        ["-c", program], cwd=tmp_path, stdout=False, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )
    assert plain.written.isascii() and "\\u" not in plain.written and " 50%" in plain.written


@pytest.mark.req("FR-CLI-005", "FR-CLI-004")
@pytest.mark.executed  # a daemon that is forked is there before anybody would be told
def test_each_command_tells_that_it_waits_and_fits_the_terminals_own_width(house: Coordinated) -> None:
    house.run("daemon", "stop")
    started = on_terminal(["-m", "corral", "task", "submit", "-t", "Say hello", "-c", "sleep 600"], cwd=house.root)
    assert started.code == 0 and "starting the daemon" in started.written
    assert "Say hello" in started.lines[-1]
    waited = on_terminal(["-m", "corral", "wait", "1", "--timeout", "4"], cwd=house.root)
    assert "  0%" in waited.written and "waiting for 1 of 1" in waited.written
    narrow = on_terminal(["-m", "corral", "task", "list"], cwd=house.root, columns=20, NO_COLOR="1")
    assert "TITLE Say hello" in narrow.lines and "OUTCOME running" in narrow.lines
