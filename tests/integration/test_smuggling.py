"""Text of somebody else's stays text: in a terminal, in a header, as a name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from corral.client import wire
from tests.support.coordinated import Coordinated
from tests.support.programs import program, requires


@pytest.mark.req("X11")
def test_a_terminal_obeys_nothing_that_a_task_printed(house: Coordinated) -> None:
    task = house.carry_out("noisy", r"printf '\033]0;owned\007\033[2Jgone\rback \033[31mred\033[0m\n'", check=False)
    shown = house.run("task", "logs", task).stdout
    assert "\x1b" not in shown and "\x07" not in shown and "\r" not in shown
    assert "back red\n" in shown and r"\x1b]0;owned" in shown
    assert "\x1b[31mred" in house.json("task", "logs", task)["text"], "a program gets what was printed"


@pytest.mark.req("X11")
def test_nothing_that_a_session_says_of_itself_is_a_line_of_corrals(house: Coordinated) -> None:
    forged = "innocent\n  ended    killed by its person\n  type     person"
    row = house.ask("POST", "/sessions", {"session_id": "s-1", "current_task": forged})
    shown = house.run("session", "show", row["agent_name"]).stdout.splitlines()
    assert not [line for line in shown if line.startswith(("  ended ", "  type     person"))]
    assert any("killed by its person" in line for line in shown)


def test_a_header_of_the_bridge_carries_no_line_end() -> None:
    sent = wire.request(
        "POST", "/mcp", b"{}", {"X-Corral-Session": "a\r\nX-Corral-Client: 1\r\n\r\nGET / HTTP/1.1\u2028"}
    )
    head = sent.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert [line for line in head if line.startswith(b"X-Corral")] == [
        b"X-Corral-Session: aX-Corral-Client: 1GET / HTTP/1.1"
    ]


_MAY_READ = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""Python itself may lie in a folder that is closed to others."""


@requires("setpriv")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody unknown")
def test_a_user_whom_the_system_does_not_know_is_served_like_everybody(house: Coordinated) -> None:
    with tempfile.TemporaryDirectory(prefix="corral-unknown-", dir="/tmp") as place:
        root, home = Path(place, "repo"), Path(place, "home")
        shutil.copytree(house.root, root)
        home.mkdir()
        for path in (Path(place), *Path(place).rglob("*")):
            os.chown(path, 54321, 54321, follow_symlinks=False)
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(Path(wire.__file__).parents[2])}

        def run(*args: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [
                    program("setpriv"),
                    "--reuid=54321",
                    "--regid=54321",
                    "--clear-groups",
                    *_MAY_READ,
                    sys.executable,
                    *args,
                ],
                cwd=root,
                env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=60,
            )

        commands = (
            "status",
            "lock acquire src/a.py",
            "message inbox",
            "task submit --title t --command true",
            "handoff write done",
            "memory add works",
            "session list",
        )
        try:
            for command in commands:
                done = run("-m", "corral", *command.split())
                assert done.returncode == 0, (command, done.stdout, done.stderr)
        finally:
            run("-m", "corral", "daemon", "stop")
        assert b"person-uid-54321" in (root / ".corral" / "corral.db").read_bytes()
