"""What the command line does where its output cannot be written, or not as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinated import Coordinated

COMMANDS = (
    ("--version",),
    ("--help",),
    ("status",),
    ("status", "--json"),
    ("message", "inbox", "--agent", "Ben", "--json"),
)
"""With ways of their own through the program, and short and long."""


def corral(house: Coordinated, args: Sequence[str], before: str = "", **how: Any) -> tuple[int, str]:
    """Run a command in a process whose streams are what a shell makes of them: exit code and stderr."""
    str(Path(__file__).parents[2] / "daemon")
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {before}', "sh", sys.executable, "-m", "corral", *args],
        cwd=house.root, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, timeout=60, **how,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.fixture
def talking(house: Coordinated) -> Coordinated:
    for session_id, name in (("a", "Ann"), ("b", "Ben")):
        house.ask("POST", "/sessions", {"session_id": session_id, "agent_name": name})
    for number in range(20):
        letter = {"to": ["Ben"], "subject": f"Grüße {number}", "body": "x" * 8000}  # together more than a pipe holds
        house.ask("POST", "/messages", {"session_id": "a", **letter})
    return house


def test_a_reader_who_went_away_is_told_nothing_and_what_was_done_is_done(talking: Coordinated) -> None:
    for args in COMMANDS:
        ours, theirs = os.pipe()
        os.close(ours)
        assert corral(talking, args, stdout=theirs) == (0, ""), args
        os.close(theirs)


def test_a_full_disk_is_an_error_in_a_line(talking: Coordinated) -> None:
    for args in COMMANDS:
        code, output = corral(talking, args, "> /dev/full")
        assert (code, output) == (1, "Error: Cannot write the output: No space left on device.\n"), args


def test_closed_streams_are_no_error(talking: Coordinated) -> None:
    for args in COMMANDS:
        assert corral(talking, args, ">&-") == (0, ""), args
        assert corral(talking, args, "2>&-", stdout=subprocess.DEVNULL) == (0, ""), args


def test_who_follows_an_inbox_stops_when_nobody_reads_any_more(talking: Coordinated) -> None:
    code, output = corral(
        talking, ("message", "inbox", "--agent", "Ben", "--follow"), "| head -n 1", stdout=subprocess.DEVNULL
    )
    assert (code, output) == (0, "")


def test_where_the_locale_has_no_such_letters_they_are_written_as_what_they_are(talking: Coordinated) -> None:
    plain: dict[str, Any] = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    (mail, *_) = talking.json("message", "inbox", "--agent", "Ben", **plain)
    assert mail["subject"] == "Grüße 19"
    shown = talking.run("message", "inbox", "--agent", "Ben", **plain).stdout
    assert "Gr\\xfc\\xdfe 19" in shown
    assert json.loads(talking.run("message", "inbox", "--agent", "Ben", "--json").stdout)[0]["subject"] == "Grüße 19"
