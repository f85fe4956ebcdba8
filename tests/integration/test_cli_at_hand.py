"""The command line as people use it: status, short ids, logs, a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from corral import __version__
from tests.conftest import git
from tests.support.coordinated import Coordinated


@pytest.fixture
def house(shared_house: Coordinated) -> Coordinated:
    """One for all tests here."""
    return shared_house


def test_the_plugin_path_needs_no_repository(house: Coordinated, tmp_path: Path) -> None:
    done = house.run("plugin", "path", cwd=tmp_path)
    (line,) = done.stdout.splitlines()
    assert Path(line).is_absolute()
    assert (Path(line) / ".claude-plugin" / "plugin.json").is_file()
    assert house.json("plugin", "path", cwd=tmp_path) == {"path": line}


def test_status_doctor_and_the_bare_command(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    answer = house.json("status")
    assert answer["target"] == "main" and answer["verified"] is True
    bare, named = (
        [line for line in house.run(*command).stdout.splitlines() if "free" not in line]
        for command in ((), ("status",))
    )
    assert bare == named, "what others use of the machine's memory and disk changes at any time"
    checks = house.json("doctor")
    assert {check["status"] for check in checks} <= {"ok", "warning"}
    assert {"check", "status", "message", "remedy"} == set(checks[0])
    outside = house.run("doctor", "--json", check=False, cwd=Path("/"))
    assert outside.returncode == 1
    assert [check["status"] for check in json.loads(outside.stdout) if check["check"] == "project"] == ["error"]


@pytest.mark.req("FR-CLI-003")
def test_the_version_tells_of_the_template_of_a_project(house: Coordinated) -> None:
    answer = house.json("--version")
    first, second = house.run("--version").stdout.splitlines()
    assert first == f"corral {__version__} (Python {answer['python']}, {answer['path']})"
    assert Path(answer["path"], "__init__.py").is_file()
    assert second == f"template built-in {__version__}: compatible" and answer["template"]["compatible"] is True
    record = house.root / ".corral" / "metadata.json"
    kept = record.read_text()
    for version, status in (
        ("99.0.0", "newer than this Corral"),
        ("0.0.9", "older than this Corral: run `corral init`"),
    ):
        record.write_text(json.dumps({**json.loads(kept), "version": version}))
        assert status in house.run("--version").stdout and not house.json("--version")["template"]["compatible"]
    record.write_text("{")
    assert "run `corral init` again" in house.run("--version").stdout
    record.write_text(kept)
    assert house.json("--version", cwd=Path("/"))["template"] is None


def test_ids_may_be_shortened_where_one_stands_does_not_matter_and_logs_are_for_programs_too(
    house: Coordinated, tmp_path: Path
) -> None:
    task = house.carry_out("speak", "echo spoken; echo x > x")
    merge = house.json("task", "detail", task[:8], cwd=house.root / "src")["merge"]["merge_id"]
    assert house.json("merge", "detail", merge[:8])["merge_id"] == merge
    git(house.root, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert house.json("task", "detail", task, cwd=tmp_path / "linked")["task_id"] == task
    assert house.json("-C", str(house.root), "task", "detail", task, cwd=Path("/"))["task_id"] == task
    assert "spoken" in house.run("task", "logs", task).stdout
    answer = house.json("task", "logs", task)
    assert "spoken" in answer["text"] and answer["complete"] is True
    assert house.json("merge", "log", merge)["complete"] is True


def test_text_of_others_is_shown_and_not_obeyed(house: Coordinated) -> None:
    house.run("lock", "acquire", "src/a.py", "--reason", "\x1b[2Jgone\x07")
    shown = house.run("lock", "list").stdout
    assert "\x1b" not in shown and "\x07" not in shown
    assert "gone" in shown


@pytest.mark.req("FR-CLI-005")
def test_on_a_terminal_waiting_shows_what_it_waits_for_and_quiet_does_not(house: Coordinated) -> None:
    task = house.submit("long", "sleep 600")
    assert "waiting for 1 of 1" in _on_a_terminal(house, "wait", task, "--timeout", "5")
    assert "waiting for" not in _on_a_terminal(house, "--quiet", "wait", task, "--timeout", "2")
    house.run("task", "cancel", task)


def _on_a_terminal(house: Coordinated, *args: str) -> str:
    """What a command writes to stderr when that is a terminal."""
    ours, theirs = pty.openpty()
    str(Path(__file__).resolve().parents[2] / "daemon")
    process = subprocess.Popen(
        [sys.executable, "-m", "corral", *args],
        cwd=house.root,
        env={**os.environ, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    output, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        if not select.select([ours], [], [], 1.0)[0]:
            continue
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        output += part
    os.close(ours)
    process.wait(30)
    return output.decode("utf-8", "replace")
