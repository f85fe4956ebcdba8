"""What another user of the machine planted is not believed: nothing of it is executed, started, created or answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.client import wire
from corral.client.connection import Client
from corral.config.paths import find_project
from corral.core.errors import DaemonUnreachable
from tests.bundle.listener import coordinate as look_coordinated
from tests.bundle.listener import listening
from tests.conftest import git
from tests.integration import bridging
from tests.integration.hooking import fire, logged, silent
from tests.support.coordinated import Coordinated
from tests.support.files import executable
from tests.support.strangers import NEEDS_ROOT, STRANGER, ask_as_stranger, plant, serving, snapshot

pytestmark = [NEEDS_ROOT, pytest.mark.req("X2")]
COMMANDS = (
    ("status",),
    ("doctor",),
    ("init", "--yes"),
    ("uninstall", "--yes"),
    ("task", "list"),
    ("task", "submit", "--title", "x", "--command", "true"),
    ("daemon", "start"),
    ("daemon", "stop"),
    ("config", "show"),
)


@pytest.fixture
def planted(coordinate: Callable[..., Coordinated], tmp_path: Path) -> Iterator[Coordinated]:
    """A folder that everybody may write to, with the trap of a stranger in it; nothing ever falls into it."""
    shared, marker = tmp_path / "shared", tmp_path / "executed"
    shared.mkdir()
    shared.chmod(0o1777)
    git(shared, "init", "-q", "-b", "main")
    git(shared, "commit", "-q", "--allow-empty", "-m", "first")
    trap = coordinate(shared)
    plant(trap, marker)
    (shared / "mine").mkdir()
    before = snapshot(shared)
    yield trap
    assert snapshot(shared) == before
    assert not marker.exists()
    assert not [process for process in psutil.process_iter(["cmdline"]) if str(shared) in str(process.info["cmdline"])]


def test_no_command_touches_a_planted_repository(planted: Coordinated) -> None:
    for command in COMMANDS:
        done = planted.run(*command, check=False, cwd=planted.root / "mine")
        assert done.returncode != 0
        output = done.stdout + done.stderr
        assert f"detected dubious ownership in repository at '{planted.root}'" in output, command
        assert f"git config --global --add safe.directory {planted.root}" in output, command
    assert json.loads(planted.run("status", "--json", check=False).stderr)["error"]["name"] == "dubious_ownership"


def test_no_daemon_starts_in_a_planted_repository(planted: Coordinated) -> None:
    argv = [sys.executable, "-m", "corral.daemon", "--project", str(planted.root)]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    assert (done.returncode, json.loads(done.stdout)["error"]["name"]) == (1, "dubious_ownership")


@pytest.mark.req("HOOK-3")
def test_a_hook_does_nothing_in_a_planted_repository_and_says_so_once(planted: Coordinated, tmp_path: Path) -> None:
    corral = executable(tmp_path / "bin" / "corral", f"#!/bin/sh\ntouch {tmp_path / 'executed'}\n")
    where, path = planted.root / "mine", str(corral.parent)
    answer = json.loads(fire(where, "SessionStart", path=path, source="startup").stdout)
    assert list(answer) == ["systemMessage"]
    assert "dubious ownership" in answer["systemMessage"]
    for source in ("clear", "compact"):
        assert silent(fire(where, "SessionStart", path=path, source=source))
    for event in ("PreToolUse", "Stop", "SessionEnd"):
        for options in ((), ("--deny-when-down",)):
            assert silent(fire(where, event, *options, path=path))
    worktree = fire(where, "WorktreeCreate", path=path, name="x")
    assert (worktree.returncode, worktree.stdout) == (1, b"")
    assert b"dubious ownership" in worktree.stderr, "plain git says so itself"


def test_the_bridge_in_a_planted_repository_is_one_where_nothing_is_coordinated(planted: Coordinated) -> None:
    bridge = bridging.Bridge(planted.root / "mine")
    try:
        assert "instructions" not in bridge.ask("initialize")["result"]
        assert bridge.ask("tools/list")["result"] == {"tools": []}
        for event in ("PreToolUse", "Stop"):
            assert bridge.hook(event, tool_name="Bash", tool_input={"command": "true"}) == {}
    finally:
        bridge.close()


@pytest.fixture
def served(repo: Path) -> Iterator[Path]:
    """A repository of one's own where a stranger could put a socket; nothing is ever said to it."""
    run_dir = look_coordinated(repo).parent
    run_dir.chmod(0o777)
    with serving(run_dir) as heard:
        yield repo
        assert not heard.exists()


@pytest.mark.parametrize("options", [(), ("--deny-when-down",)])
def test_a_hook_believes_no_socket_of_another_user(served: Path, options: tuple[str, ...]) -> None:
    done = fire(served, "PreToolUse", *options)
    assert b"allow" not in done.stdout
    assert done.returncode == 0
    assert "another user" in logged(served)[0]


def test_the_bridge_believes_no_socket_of_another_user(served: Path) -> None:
    bridge = bridging.Bridge(served)
    try:
        assert bridge.hook("PreToolUse", tool_name="Bash", tool_input={"command": "true"}) == {}
        assert "another user" in bridging.logged(served)[0]
    finally:
        bridge.close()


def test_a_command_believes_no_socket_of_another_user(served: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="Permission denied for the daemon") as refusal:
        Client(find_project(served)).request("GET", "/status")
    assert "another user" in refusal.value.cause


def test_a_strangers_link_to_a_daemon_of_ones_own_is_not_followed(repo: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.sock"
    sock = look_coordinated(repo)
    link.symlink_to(sock)
    with listening(sock):
        wire.dial(str(link), 5).close()
        os.lchown(link, STRANGER, STRANGER)
        with pytest.raises(PermissionError):
            wire.dial(str(link), 5)


def test_mail_is_not_waited_for_at_a_socket_of_another_user(served: Path) -> None:
    program = "import os, sys; sys.path.insert(0, sys.argv[1]); import hook; hook.connect(sys.argv[2], False, 2)"
    argv = [
        sys.executable,
        "-I",
        "-S",
        "-B",
        "-c",
        program,
        str(bridging.DAEMON.parent / "hooks"),
        str(served / ".corral"),
    ]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert b"PermissionError: another user's socket" in done.stderr


def test_safe_directory_is_honoured_and_the_daemon_refuses_who_does_not_own_it(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate()
    for path in (house.root, house.root / ".git", house.root / ".corral", house.root / ".corral" / "config.yaml"):
        os.chown(path, 65534, 65534)
    assert house.run("status", check=False).returncode == 2
    git(house.root, "config", "--global", "--add", "safe.directory", str(house.root))
    hook: dict[str, Any] = house.hook("SessionStart", "s-1", source="startup")
    assert "dubious ownership" not in hook.get("systemMessage", "")
    assert house.json("wait", house.submit("a task", "echo x > x.txt"), "--timeout", "60")["done"] is True
    run_dir = house.root / ".corral" / "run"
    run_dir.chmod(0o711)
    (run_dir / "corral.sock").chmod(0o777)
    assert ask_as_stranger(run_dir) == b""
    run_dir.chmod(0o700)
    assert house.daemon_pid() is not None
