"""`corral statusline` in the status line of Claude Code, and what `corral init` makes of that setting."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git
from tests.integration.claude_settings import SETTINGS, settings_of, write_settings
from tests.support.coordinated import Coordinated
from tests.support.files import put
from tests.support.programs import requires
from tests.support.tmux import Tmux

HOSTILE = "\x1b[2JEvil\x07\u202e\nforged | needs you"
LINE = {"type": "command", "command": "if command -v corral >/dev/null 2>&1; then corral statusline; fi"}


def status_line(house: Coordinated, status: Any, cwd: Path | None = None, *options: str) -> str:
    """The output of the command for a status; it must succeed and complain of nothing."""
    done = subprocess.run(
        [sys.executable, *options, "-m", "corral", "statusline"],
        cwd=cwd or house.root,
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
    status = {
        "session_id": "s-1",
        "cwd": str(house.root),
        "model": {"id": "m"},
        "context_window": {"used_percentage": 4},
    }

    def seen() -> Any:
        session = house.ask("GET", "/sessions/s-1")
        return session["last_heartbeat"], house.ask("GET", "/status")["seq"]

    before = seen()
    line = status_line(house, status)
    assert line.endswith("\n") and line.count("\n") == 1
    assert line.rstrip("\n").isprintable(), "nothing that a terminal obeys"
    name, task, locks, unread, queue, needs = line.rstrip("\n").split(" | ", 5)
    assert (name, locks, unread, queue) == ("GreenLake", "2 locks", "1 unread", "queue 1 task, 0 merges")
    assert task.startswith("\\x1b[2JEvil\\x07\\u202e") and len(task) <= 40
    assert needs.startswith("needs you (1): ") and "Evil" in needs
    assert seen() == before, "looking is no heartbeat, and no event"
    assert status_line(house, status, tmp_path) == line, (
        "the folder of the status counts where the own one is no project"
    )
    assert status_line(house, {"session_id": "nobody"}).startswith("queue 1 task")
    for broken in (b"", b"{", b"[]", b"\xff\xfe", b'{"session_id": 5}', b'{"session_id": "' + b"x" * 3000 + b'"}'):
        assert "Traceback" not in status_line(house, broken)


def test_it_starts_no_daemon_and_says_nothing_where_nothing_is_coordinated(house: Coordinated, tmp_path: Path) -> None:
    assert status_line(house, {"session_id": "s-1"}) == "corral: the daemon is not running\n"
    assert house.daemon_pid() is None
    assert status_line(house, {"session_id": "s-1", "cwd": str(tmp_path)}, tmp_path) == ""
    assert status_line(house, b"not json", tmp_path) in ("", "corral: the daemon does not answer\n")
    loaded = status_line(house, {}, None, "-X", "importtime")
    assert not modules(loaded) & (SLOW | {"urllib"})


SLOW = {
    *(
        "asyncio",
        "click",
        "dataclasses",
        "difflib",
        "email",
        "hmac",
        "http",
        "importlib.metadata",
        "inspect",
        "logging",
    ),
    *(
        "pydantic",
        "rich",
        "secrets",
        "shutil",
        "sqlalchemy",
        "ssl",
        "subprocess",
        "tempfile",
        "typer",
        "urllib.request",
    ),
    *("yaml", "zoneinfo"),
}
"""Modules that take long to load, or load others that do."""


def modules(importtime: str) -> set[str]:
    """The modules in what ``-X importtime`` prints, with the packages that they are in."""
    names = {line.rpartition("|")[2].strip() for line in importtime.splitlines() if line.startswith("import time:")}
    return {*names, *(name.partition(".")[0] for name in names)}


LINES = (
    *("--version", "--help", "status", "task submit --title x --command true", "task list", "task detail 1"),
    *("lock acquire a.py", "lock list", "metrics", "swarm status"),
)


@pytest.mark.executed
def test_a_command_loads_nothing_that_takes_long(house: Coordinated) -> None:
    house.ask("POST", "/pause", {"reason": "nothing needs to run"})
    house.ask("POST", "/tasks", {"title": "first", "command": "true"})
    for line in LINES:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "corral", *line.split()],
            cwd=house.root,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, (line, done.stderr)
        assert not modules(done.stderr) & SLOW, line


@pytest.mark.parametrize("edited", [False, True], ids=["as it was", "edited since"])
def test_init_sets_the_status_line_for_one_person_and_uninstall_takes_exactly_that_out(
    repo: Path, *, edited: bool
) -> None:
    mine = write_settings(repo, json.dumps(SETTINGS, indent=2) + "\n")
    local = settings_of(repo).with_name("settings.local.json")
    own = {"model": "opus"} if edited else None
    if own is not None:
        local.write_text(json.dumps(own))
    house = Coordinated(repo)
    exclude = repo / ".git" / "info" / "exclude"
    excluded = exclude.read_bytes() if exclude.exists() else None
    assert "git does not ignore .claude/settings.local.json" in house.run("init", "--yes").stdout
    assert "settings.local.json" not in git(repo, "status", "--porcelain", "--untracked-files=all")
    shared = settings_of(repo).read_bytes()
    assert "statusLine" not in json.loads(local.read_text()), "nobody asked for it"
    guard = json.loads(local.read_text())["hooks"]
    house.run("init", "--yes", "--status-line")
    written = local.read_text()
    assert json.loads(written) == {**(own or {}), "hooks": guard, "statusLine": LINE}
    assert settings_of(repo).read_bytes() == shared, "what colleagues see is their own matter"
    house.run("init", "--yes", "--status-line")
    assert local.read_text() == written
    if edited:
        local.write_text(json.dumps({**json.loads(written), "model": "haiku"}))
    house.run("uninstall", "--yes")
    assert json.loads(local.read_text()) == {"model": "haiku"} if edited else not local.exists()
    assert settings_of(repo).read_bytes() == mine
    assert (exclude.read_bytes() if exclude.exists() else None) == excluded


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_a_status_line_of_ones_own_stays(repo: Path, name: str) -> None:
    file = put(
        settings_of(repo).with_name(name),
        own := json.dumps({"statusLine": {"type": "command", "command": "echo mine"}}),
    )
    house = Coordinated(repo)
    assert f"{name} has its own status line; it stays" in house.run("init", "--yes", "--status-line").stdout
    assert json.loads(file.read_text())["statusLine"] == json.loads(own)["statusLine"]
    assert name == "settings.local.json" or "statusLine" not in file.with_name("settings.local.json").read_text()
    house.run("uninstall", "--yes")
    assert file.read_text() == own


@requires("tmux")
@pytest.mark.parametrize("has_one", [False, True], ids=["nobody has one", "somebody has one"])
def test_a_person_is_asked_at_the_terminal_unless_they_have_a_status_line(
    repo: Path, sealed: Path, tmp_path: Path, *, has_one: bool
) -> None:
    if has_one:
        put(sealed / ".claude" / "settings.json", json.dumps({"statusLine": {"type": "command"}}))
    server, question = Tmux(tmp_path), "Set it for yourself, in .claude/settings.local.json?"
    words = "init", "--no-check", "--verify", "true", "--ask-for-tools"
    shell = f"{shlex.join([sys.executable, '-m', 'corral', *words])}; echo left with $?; exec sleep 600"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "daemon")}
    try:
        screen = server.open(["sh", "-c", shell], cwd=repo, env=env, size=(120, 80))
        if not has_one:
            screen.sees(question)
            screen.press("y", "Enter")
        screen.sees("Write these files?")
        assert (question in screen.screen("-J", "-S", "-500")) == (not has_one)
        screen.press("y", "Enter")
        screen.sees("left with 0")
    finally:
        server.end()
    local = settings_of(repo).with_name("settings.local.json")
    assert ("statusLine" in json.loads(local.read_text())) == (not has_one)
    assert "statusLine" not in json.loads(settings_of(repo).read_text())
    Coordinated(repo).run("uninstall", "--yes")
    assert not local.exists()
