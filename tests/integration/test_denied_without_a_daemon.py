"""Hooks of the settings: `locks.on_daemon_down: deny`, no edit while no daemon can be had; the guard of edits in worktrees."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from corral.faces.cli.project.claude_settings import _HOOKS, STRICT
from tests.conftest import git
from tests.integration.claude_settings import OWN_HOOK, SETTINGS, settings_of, write_settings
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable
from tests.support.programs import COMMON, program

LAST_LOOK = _HOOKS["LastLook"]["command"]


def denying(house: Coordinated) -> None:
    (house.root / ".corral" / "local.yaml").write_text("locks: {on_daemon_down: deny}\n")
    house.run("init", "--yes")


def before_an_edit(house: Coordinated, corral: Path) -> subprocess.CompletedProcess[str]:
    """Run the hook before a tool as the client does: the settings' command, in a shell, with the event on its input."""
    *_, group = json.loads(settings_of(house.root).read_text())["hooks"]["PreToolUse"]
    assert "Bash" in group["matcher"].split("|") and "Edit" in group["matcher"].split("|")
    payload = {"session_id": "s", "cwd": str(house.root), "hook_event_name": "PreToolUse", "tool_name": "Edit"}
    payload |= {"tool_use_id": "use", "tool_input": {"file_path": str(house.root / "README.md")}}  # type: ignore[dict-item]
    return subprocess.run(
        ["sh", "-c", group["hooks"][0]["command"]],
        cwd=house.root,
        env={**os.environ, "PATH": f"{corral}:{os.environ['PATH']}"},
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def corral(tmp_path: Path) -> Path:
    """A folder with the command in it."""
    source = Path(__file__).resolve().parents[2] / "daemon"
    file = executable(
        tmp_path / "bin" / "corral", f'#!/bin/sh\nPYTHONPATH="{source}" exec "{sys.executable}" -m corral "$@"\n'
    )
    return file.parent


def test_with_deny_an_edit_is_refused_while_no_daemon_can_be_had_and_only_then(
    house: Coordinated, corral: Path
) -> None:
    denying(house)
    # A daemon that can be started is started. On a busy machine that may take longer than an edit waits for it.
    started = eventually(lambda: done if not (done := before_an_edit(house, corral)).stdout else None)
    assert started.returncode == 0
    assert house.json("session", "list")[0]["status"] == "active", "no shell counts as the session's process"
    assert [lock["file_path"] for lock in house.json("lock", "list")] == ["README.md"]
    house.run("daemon", "stop")
    (house.root / ".corral" / "corral.db").write_bytes(b"garbage" * 1000)
    refused = before_an_edit(house, corral)
    assert refused.returncode == 0
    assert json.loads(refused.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    (corral / "corral").write_text("#!/bin/sh\nexit 1\n")
    assert before_an_edit(house, corral).returncode == 2, "a command that is broken is no permission"
    (corral / "corral").unlink()
    absent = before_an_edit(house, corral)
    assert (absent.returncode, absent.stdout, absent.stderr) == (0, "", ""), "a colleague without Corral is left alone"


@pytest.mark.parametrize("end", ["uninstall", "allow", "uninstall after an edit of the file"])
def test_the_denying_hook_comes_and_goes_with_the_setting(repo: Path, end: str) -> None:
    before = write_settings(repo, json.dumps(SETTINGS))
    house = Coordinated(repo)
    house.run("init", "--yes")
    without = settings_of(repo).read_bytes()
    denying(house)
    own, ours = json.loads(settings_of(repo).read_text())["hooks"]["PreToolUse"]
    assert own == OWN_HOOK and STRICT in ours["hooks"][0]["command"]
    assert "everything is in place" in house.run("init", "--yes").stdout
    try:
        if end == "allow":
            (repo / ".corral" / "local.yaml").unlink()
            assert "--deny-when-down" in house.run("init", "--yes").stdout
            assert json.loads(settings_of(repo).read_bytes()) == json.loads(without)
        if end == "uninstall after an edit of the file":
            edited = json.loads(settings_of(repo).read_text())
            write_settings(repo, json.dumps({**edited, "note": "mine"}))
            house.run("uninstall", "--yes")
            assert json.loads(settings_of(repo).read_text()) == {**SETTINGS, "note": "mine"}
        else:
            house.run("uninstall", "--yes")
            assert settings_of(repo).read_bytes() == before
    finally:
        house.stop()


def test_the_doctor_tells_of_a_denial_that_nothing_puts_in_force(house: Coordinated) -> None:
    (house.root / ".corral" / "local.yaml").write_text("locks: {on_daemon_down: deny}\n")

    def checks() -> set[str]:
        return {check["check"] for check in json.loads(house.run("doctor", "--json", check=False).stdout)}

    assert "denial" in checks()
    house.run("init", "--yes")
    assert "denial" not in checks()


@pytest.mark.parametrize(("hook", "version", "code"), [(0, 0, 0), (2, 0, 2), (1, 0, 1), (1, 1, 0), (127, 127, 0)])
def test_a_command_that_starts_and_dies_locks_nobody_out(tmp_path: Path, hook: int, version: int, code: int) -> None:
    """The hook of `settings.local.json`, which blocks unless it ends with 0: what cannot even say its version is gone."""
    executable(tmp_path / "corral", f'#!/bin/sh\n[ "$1" = hook ] && exit {hook}\nexit {version}\n')
    env = {"PATH": f"{tmp_path}:{COMMON}", "CLAUDE_PROJECT_DIR": str(tmp_path)}
    assert subprocess.run(["sh", "-c", LAST_LOOK], env=env, stdin=subprocess.DEVNULL, check=False).returncode == code


@pytest.mark.executed
def test_an_edit_is_left_to_a_bridge_that_lives_and_answers_it(tmp_path: Path) -> None:
    executable(tmp_path / "corral", "#!/bin/sh\n[ $# = 3 ] && cat >asked\nexit 2\n")
    env = {"PATH": f"{tmp_path}:{COMMON}", "CLAUDE_PROJECT_DIR": str(tmp_path), "CLAUDE_PID": str(os.getpid())}
    clients = tmp_path / ".corral" / "run" / "clients"
    clients.mkdir(parents=True)
    event = json.dumps(
        {"tool_input": {"content": 'its "answered": "b" '}, "tool_use_id": "toolu_b"}, separators=(",", ":")
    )

    def begin() -> subprocess.Popen[str]:
        hook = subprocess.Popen(["sh", "-c", LAST_LOOK], env=env, cwd=tmp_path, stdin=subprocess.PIPE, text=True)
        assert hook.stdin is not None
        hook.stdin.write(event)
        hook.stdin.close()
        return hook

    def asks_itself() -> bool:
        with begin() as hook:
            return hook.wait(30) == 2 and (tmp_path / "asked").read_text() == event

    (clients / f"{os.getpid()}.{os.getppid()}").touch(0o700)  # a process id that was given again
    assert asks_itself()
    with subprocess.Popen([program("sleep"), "600"]) as bridge:
        announced = clients / f"{os.getpid()}.{bridge.pid}"
        announced.write_text('{"pid": 1, "answered": " toolu_c toolu_b toolu_a "}')
        announced.chmod(0o600)
        assert asks_itself(), "no hook reached it yet"
        announced.chmod(0o700)
        assert not asks_itself()
        announced.write_text('{"pid": 1}')
        assert not asks_itself(), "a bridge of a former version does not say what it answered"
        announced.write_text("")
        assert asks_itself(), "on a full disk it cannot say what it answered"
        announced.write_text('{"pid": 1, "answered": ""}')
        with begin() as hook:
            with pytest.raises(subprocess.TimeoutExpired):
                hook.wait(0.5)
            announced.write_text('{"pid": 1, "answered": " toolu_b "}')
            assert hook.wait(30) == 0, "the bridge was waited for"
        announced.write_text('{"pid": 1, "answered": " toolu_a "}')
        with begin() as hook:
            with pytest.raises(subprocess.TimeoutExpired):
                hook.wait(0.5)
            bridge.kill()
            assert hook.wait(30) == 2, "the bridge died before it answered"
    announced.write_text('{"pid": 1, "answered": " toolu_b "}')
    assert not asks_itself(), "it died after it had answered"
    announced.write_text('{"pid": 1, "answered": ""}')
    assert asks_itself()


def test_no_stopped_bridge_is_waited_for(tmp_path: Path) -> None:
    executable(tmp_path / "corral", "#!/bin/sh\nexit 2\n")
    env = {"PATH": f"{tmp_path}:{COMMON}", "CLAUDE_PROJECT_DIR": str(tmp_path), "CLAUDE_PID": str(os.getpid())}
    (clients := tmp_path / ".corral" / "run" / "clients").mkdir(parents=True)
    with subprocess.Popen([program("sleep"), "600"]) as bridge:
        announced = clients / f"{os.getpid()}.{bridge.pid}"
        announced.write_text('{"pid": 1}')
        announced.chmod(0o700)
        bridge.send_signal(signal.SIGSTOP)
        os.waitpid(bridge.pid, os.WUNTRACED)
        assert subprocess.run(["sh", "-c", LAST_LOOK], env=env, stdin=subprocess.DEVNULL, check=False).returncode == 2
        bridge.kill()


@pytest.mark.req("FR-CLI-003")
def test_a_worktree_has_the_guard_of_the_main_checkout_until_corral_goes(house: Coordinated, corral: Path) -> None:
    made = house.json("worktree", "create", "made")
    place, path = Path(made["path"]), ".claude/settings.local.json"
    (group,) = json.loads((place / path).read_text())["hooks"]["PreToolUse"]
    assert git(place, "status", "--porcelain", "--untracked-files=all") == "" and git(place, "check-ignore", path)
    house.hook("SessionStart", "ada")
    house.ask("POST", "/locks/acquire", {"paths": ["README.md"], "session_id": "ada"})

    def look(file: str, **env: str) -> str:
        call = {"tool_name": "Edit", "tool_use_id": f"use-{file}", "tool_input": {"file_path": str(place / file)}}
        done = subprocess.run(
            ["sh", "-c", group["hooks"][0]["command"]],
            cwd=place, env={**os.environ, "PATH": f"{corral}:{os.environ['PATH']}", "CLAUDE_PROJECT_DIR": str(place), **env},
            input=json.dumps({"session_id": "ben", "cwd": str(place), "hook_event_name": "PreToolUse", **call}),
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return done.stdout

    assert '"deny"' in look("README.md") and '"deny"' not in look("src/a.py"), "no bridge lives: it looks by itself"
    clients = house.root / ".corral" / "run" / "clients"
    clients.mkdir(exist_ok=True)
    (bridge := clients / f"{os.getppid()}.{os.getpid()}").write_text('{"answered": " use-README.md "}')
    bridge.chmod(0o700)
    assert look("README.md", CLAUDE_PID=str(os.getppid())) == "", "its bridge lives, and answered"

    for name in ("copied", "edited"):  # as the client copies it into the worktrees that it makes
        own = house.root.parent / name
        git(house.root, "worktree", "add", "-q", str(own), "-b", name)
        shutil.copytree(house.root / ".claude", own / ".claude", dirs_exist_ok=True)
    house.hook("SessionEnd", "ben", place, reason="other")  # what it works in would stay
    (own / path).write_text(json.dumps({**json.loads((own / path).read_text()), "model": "haiku"}))
    house.run("uninstall", "--yes")
    assert not place.exists() and not (own.with_name("copied") / path).exists()
    assert json.loads((own / path).read_text()) == {"model": "haiku"}
