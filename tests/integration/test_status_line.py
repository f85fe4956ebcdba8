"""`corral statusline` in the status line of Claude Code, and what `corral init` makes of that setting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.coordinated import Coordinated
from tests.integration.claude_settings import SETTINGS, settings_of, write_settings

HOSTILE = "\x1b[2JEvil\x07\u202e\nforged | needs you"
LINE = {"type": "command", "command": "if command -v corral >/dev/null 2>&1; then corral statusline; fi"}


def status_line(house: Coordinated, status: Any, cwd: Path | None = None, *options: str) -> str:
    """The output of the command for a status; it must succeed and complain of nothing."""
    done = subprocess.run(
        [sys.executable, *options, "-m", "corral", "statusline"],
        cwd=cwd or house.root,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "daemon")},
        input=status if isinstance(status, bytes) else json.dumps(status).encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0
    if not options:
        assert done.stderr == b""
    return done.stdout.decode() if not options else done.stderr.decode()


def test_it_shows_the_session_the_queue_and_what_needs_a_person_and_changes_nothing(
    house: Coordinated, tmp_path: Path
) -> None:
    house.hook("SessionStart", "s-1", source="startup")
    house.ask("POST", "/sessions", {"session_id": "s-1", "agent_name": "GreenLake", "current_task": HOSTILE})
    house.ask("POST", "/sessions", {"session_id": "s-2", "agent_name": "Other"})
    house.ask("POST", "/locks/acquire", {"session_id": "s-1", "paths": ["a.py", "b.py"]})
    house.ask("POST", "/messages", {"sender": "s-2", "to": ["GreenLake"], "subject": "hi", "body": "text"})
    house.ask("POST", "/pause", {"reason": HOSTILE})
    house.submit("wait here", "true")
    said = {"session_id": "s-1", "cwd": str(house.root), "model": {"id": "m"}, "context_window": {"used_percentage": 4}}

    def seen() -> Any:
        session = house.ask("GET", "/sessions/s-1")
        return session["last_heartbeat"], house.ask("GET", "/status")["seq"]

    before = seen()
    line = status_line(house, said)
    assert line.endswith("\n") and line.count("\n") == 1
    assert line.rstrip("\n").isprintable(), "nothing that a terminal obeys"
    name, task, locks, unread, queue, needs = line.rstrip("\n").split(" | ", 5)
    assert (name, locks, unread, queue) == ("GreenLake", "2 locks", "1 unread", "queue 1 task, 0 merges")
    assert task.startswith("\\x1b[2JEvil\\x07\\u202e") and len(task) <= 40
    assert needs.startswith("needs you (1): ") and "Evil" in needs
    assert seen() == before, "looking is no heartbeat, and no event"
    assert status_line(house, said, tmp_path) == line, "the folder of the status counts where the own one is no project"
    assert status_line(house, {"session_id": "nobody"}).startswith("queue 1 task")
    for broken in (b"", b"{", b"[]", b"\xff\xfe", b'{"session_id": 5}', b'{"session_id": "' + b"x" * 3000 + b'"}'):
        assert "Traceback" not in status_line(house, broken)


def test_it_starts_no_daemon_and_says_nothing_where_nothing_is_coordinated(house: Coordinated, tmp_path: Path) -> None:
    assert status_line(house, {"session_id": "s-1"}) == "corral: the daemon is not running\n"
    assert house.daemon_pid() is None
    assert status_line(house, {"session_id": "s-1", "cwd": str(tmp_path)}, tmp_path) == ""
    assert status_line(house, b"not json", tmp_path) in ("", "corral: the daemon does not answer\n")
    loaded = status_line(house, {}, None, "-X", "importtime")
    slow = {
        "typer",
        "rich",
        "click",
        "pydantic",
        "sqlalchemy",
        "yaml",
        "asyncio",
        "dataclasses",
        "urllib",
        "subprocess",
    }
    assert not slow & {line.rpartition("|")[2].strip().partition(".")[0] for line in loaded.splitlines()}


@pytest.mark.parametrize("edited", [False, True], ids=["as it was", "edited since"])
def test_init_sets_the_status_line_and_uninstall_takes_exactly_that_out(repo: Path, *, edited: bool) -> None:
    mine = write_settings(repo, json.dumps(SETTINGS, indent=2) + "\n")
    house = Coordinated(repo)
    house.run("init", "--yes")
    assert "statusLine" not in json.loads(settings_of(repo).read_text()), "nobody asked for it"
    house.run("init", "--yes", "--status-line")
    written = settings_of(repo).read_text()
    assert json.loads(written)["statusLine"] == LINE
    house.run("init", "--yes", "--status-line")
    assert settings_of(repo).read_text() == written
    if edited:
        settings_of(repo).write_text(json.dumps({**json.loads(written), "model": "opus"}, indent=2) + "\n")
    house.run("uninstall", "--yes")
    if edited:
        assert json.loads(settings_of(repo).read_text()) == {**json.loads(mine), "model": "opus"}
    else:
        assert settings_of(repo).read_bytes() == mine


def test_a_status_line_of_ones_own_stays(repo: Path) -> None:
    own = {"statusLine": {"type": "command", "command": "echo mine"}}
    before = write_settings(repo, json.dumps(own))
    house = Coordinated(repo)
    assert "has its own status line; it stays" in house.run("init", "--yes", "--status-line").stdout
    assert json.loads(settings_of(repo).read_text())["statusLine"] == own["statusLine"]
    house.run("uninstall", "--yes")
    assert settings_of(repo).read_bytes() == before
