"""Every list and detail as text, JSON and ASCII table: the same fields, whole in a pipe, fitting on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.faces.cli.terminal.context import Format
from tests.conftest import commit, git
from tests.support.coordinated import Coordinated

LISTS = (
    ("task", "list"), ("task", "dlq", "list"), ("merge", "list"), ("session", "list"), ("lock", "list"),
    ("worktree", "list"), ("worktree", "recover"), ("feature", "list"), ("handoff", "list"), ("memory", "list"),
    ("message", "inbox"), ("message", "contacts"),
)  # fmt: skip
HOSTILE = "Say [bold]hi[/bold] \x1b[31mred\u202eevil\x07 日本語"


QUIET = "supervisor: {max_agents: 0}"


@pytest.fixture
def quiet_house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    return coordinate(config=QUIET)


@pytest.fixture
def filled_house(share: Callable[..., Coordinated]) -> Coordinated:
    """In it is more than one test has put there."""
    return share(config=QUIET)


def headings(shown: str) -> list[str]:
    """The headings of an ASCII table, in the form of JSON."""
    rule, line, *_rest = shown.splitlines()
    assert re.fullmatch(r"\+(-+\+)+", rule), shown
    return [cell.strip().lower() for cell in line.strip("|").split("|")]


@pytest.mark.req("FR-CLI-004", "NFR-USE-005")
def test_every_list_has_three_formats_also_when_it_is_empty(quiet_house: Coordinated) -> None:
    for command in LISTS:
        empty = {form.value: quiet_house.run(*command, "--output", form).stdout for form in Format}
        assert json.loads(empty["json"]) == []
        assert empty["table"] == empty["human"] and empty["table"].strip(), command
        assert quiet_house.run("--output", "json", *command).stdout == empty["json"]
        assert quiet_house.run(*command, "--json").stdout == empty["json"]
    assert quiet_house.json("wait", "--all")["done"] is True, "of nothing all is done"


@pytest.mark.req("FR-CLI-004")
def test_a_table_has_the_fields_of_the_json_and_cuts_nothing(quiet_house: Coordinated) -> None:
    title = f"{HOSTILE} {'long ' * 40}end"
    task = quiet_house.submit(title, "true", "--wait-for", quiet_house.submit("first", "true"))
    (_, row) = quiet_house.json("task", "list", "--sort", "oldest")
    shown = quiet_house.run("task", "list", "--output", "table").stdout
    assert headings(shown) == [*row]
    assert "\x1b" not in shown and "[31mred\\u202eevil" in shown and "[bold]hi[/bold]" in shown and "end |" in shown
    assert len({line.count("|") for line in shown.splitlines() if line.startswith("|")}) == 1
    detail = quiet_house.json("task", "detail", task)
    parts = re.split(
        r"^\n(\w+)$", quiet_house.run("task", "detail", task, "--output", "table").stdout, flags=re.MULTILINE
    )
    named = [line.split("|")[1].strip() for line in parts[0].splitlines() if line.startswith("|")]
    assert {name.partition(".")[0] for name in named[1:]} | {*parts[1::2]} == {*detail}
    assert "usage.cost_usd" in named and parts[1::2] == ["history"]
    assert headings(parts[2].strip())[:2] == [*detail["history"][0]][:2]


@pytest.mark.req("FR-CLI-004")
def test_two_formats_at_once_and_unknown_ones_are_refused(filled_house: Coordinated) -> None:
    for wrong in (("task", "list", "--json", "--output", "table"), ("task", "list", "--output", "xml")):
        done = filled_house.run(*wrong, check=False)
        assert (done.returncode, done.stdout) == (2, ""), wrong
    assert "no output as table" in filled_house.run("demo", "--output", "table", check=False).stderr
    refusal = filled_house.run("task", "list", "--output", "json", "--status", "asleep", check=False)
    assert json.loads(refusal.stderr)["error"]["name"] == "invalid_input"


@pytest.mark.req("FR-CLI-006")
def test_a_wrong_command_line_has_a_code_a_cause_and_a_remedy(filled_house: Coordinated) -> None:
    done = filled_house.run("task", "lst", check=False)
    first, cause, remedy = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert first == "error: No such command 'lst'. [CORRAL-ERR-002]"
    assert cause.startswith("  cause:  Usage: corral task ")
    assert remedy == "  remedy: Did you mean 'list'? `corral task --help` shows what is accepted."


def on_terminal(house: Coordinated, columns: int, *args: str, **env: str) -> list[str]:
    """The lines of a command on a terminal of that width."""
    main, line = pty.openpty()
    str(Path(__file__).parents[2] / "daemon")
    process = subprocess.Popen(
        [sys.executable, "-m", "corral", *args],
        cwd=house.root,
        env={**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", **env},
        stdin=subprocess.DEVNULL,
        stdout=line,
        stderr=subprocess.PIPE,
    )
    os.close(line)
    seen = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(main)
    _, output = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, b"")
    return seen.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.req("FR-CLI-004")
def test_a_table_fits_its_terminal(filled_house: Coordinated) -> None:
    git(filled_house.root, "branch", "a-rather-long-name-of-a-branch/" + "x" * 60)
    filled_house.submit("A title that is longer than any terminal is wide, " * 3 + "日本語" * 9, "true")
    filled_house.hook("SessionStart", "someone")
    filled_house.run("lock", "acquire", "src/" + "deep/" * 20 + "a.py")
    for columns in (80, 40):
        for command in (("task", "list"), ("session", "list", "--output", "human"), ("lock", "list")):
            lines = on_terminal(filled_house, columns, *command)
            assert len(lines) > 1 and all(cells(line) <= columns for line in lines), (command, columns, lines)
        assert any("…" in line for line in on_terminal(filled_house, columns, "task", "list")), columns
    heading, *lines = on_terminal(filled_house, 80, "audit", "--limit", "5")
    assert heading.startswith("TIME (UTC)           AGENT") and all(cells(line) <= 80 for line in lines)
    assert [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", line)] == [], (
        "a time is not cut"
    )


def test_a_list_in_a_pipe_is_whole(filled_house: Coordinated) -> None:
    branch, title = (
        "another-rather-long-name-of-a-branch/" + "x" * 60,
        "A title that is longer than the terminal: " * 2 + "end",
    )
    git(filled_house.root, "branch", branch)
    git(filled_house.root, "switch", "-q", branch)
    commit(filled_house.root, {"src/a.py": "a = 2\n"})
    filled_house.run("merge", "submit", "--title", title)
    filled_house.submit(title, "true")
    filled_house.ask("POST", "/sessions", {"session_id": "s", "agent_name": "Ann", "current_task": title, "cwd": "/"})
    for command in ("task list", "merge list", "session list", "task list --compact", "status"):
        shown = filled_house.run(*command.split(), COLUMNS="40").stdout
        assert title in shown and "…" not in shown, command
    assert branch in filled_house.run("merge", "list", COLUMNS="40").stdout


def cells(line: str) -> int:
    from rich.cells import cell_len

    return cell_len(line)


def test_on_a_terminal_of_20_columns_each_value_has_its_own_line(filled_house: Coordinated) -> None:
    filled_house.submit("Twenty columns are few", "true")
    lines = on_terminal(filled_house, 20, "task", "list")
    assert "TITLE Twenty columns are few" in lines and "OUTCOME pending" in lines
    assert "TITLE Twenty columns are few" in on_terminal(filled_house, 20, "task", "list", "--output", "table")


def test_without_utf_8_a_cut_is_three_dots(filled_house: Coordinated) -> None:
    filled_house.submit("A title that is longer than the terminal is wide: " * 3, "true")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    lines = on_terminal(filled_house, 80, "task", "list", **plain)
    assert all(line.isascii() and len(line) <= 80 for line in lines) and any("..." in line for line in lines)
