"""The real client: no edit tool overwrites what a session holds, whatever is down; where Corral is not, every tool works."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.e2e.client import Run, run_client
from tests.e2e.stage import script, text, tool
from tests.e2e.team import PLUGIN, Member, Team, plugin
from tests.support.coordinated import Coordinated
from tests.support.programs import program
from tests.support.worlds import broken_settings, frozen, full_disk, killed, locked, stopped_for_good

pytestmark = [pytest.mark.e2e, pytest.mark.faults]

HELD = "README.md"
STRICT_MCP = ("--strict-mcp-config",)


def overwrites(path: str = HELD) -> dict[str, object]:
    return tool("Write", file_path=f"$CWD/{path}", content="by another\n")


def holding(team: Team) -> Member:
    """A session that holds a file, and lives on."""
    holder = team.member()
    holder.do(tool("Read", file_path=f"$CWD/{HELD}"), tool("Write", file_path=f"$CWD/{HELD}", content="the holder's\n"))
    assert team.locks() == {HELD: holder.session_id}
    return holder


@pytest.fixture(params=["mod", "hooks"])
def guarded(request: pytest.FixtureRequest, team: Team, tmp_path: Path) -> Team:
    """A team whose sessions have the whole plugin, or as clients before mods and under `allowManagedModsOnly` its hooks alone."""
    if request.param == "hooks":
        team.plugin = plugin(tmp_path / "hooks alone", mod=False)
    return team


@pytest.mark.timeout(600)
@pytest.mark.slow("a turn of the client in each of six worlds, in some of which it waits for its time limits")
def test_a_held_file_stays_whatever_is_down(guarded: Team) -> None:
    is_held, other = f"{HELD} is held by {holding(guarded).name}", guarded.member()
    for world in (killed, frozen, locked, full_disk, broken_settings, stopped_for_good):
        with world(guarded.house):
            assert is_held in other.do(overwrites()), world.__name__
        guarded.house.run("daemon", "start")
    assert (guarded.repo / HELD).read_text() == "the holder's\n"


@pytest.mark.parametrize(
    "guarded", ["mod", pytest.param("hooks", marks=pytest.mark.slow("the next one has them"))], indirect=True
)
def test_a_held_file_stays_through_kills_and_restarts_of_the_daemon(guarded: Team) -> None:
    team, holder = guarded, holding(guarded)
    other = team.member()
    other.do(tool("Read", file_path=f"$CWD/{HELD}"))
    team.house.kill_daemon()
    assert "is held by" in other.do(overwrites(), {"sleep": 0.3}, overwrites(), {"sleep": 1}, overwrites())
    team.until(team.house.daemon_pid)
    restart = threading.Thread(target=team.house.run, args=("daemon", "restart"))
    restart.start()
    transcript = other.do(*(step for _ in range(4) for step in (overwrites(), {"sleep": 0.2})))
    restart.join()
    assert transcript.count(f"{HELD} is held by {holder.name}") == 4
    assert (team.repo / HELD).read_text() == "the holder's\n"


def test_a_held_file_stays_where_the_bridge_is_dead_or_was_never_started(guarded: Team) -> None:
    team = guarded
    holding(team)
    other = team.member()
    other.do(tool("Read", file_path=f"$CWD/{HELD}"))
    other.bridge.kill()
    assert "is held by" in other.do(overwrites(), overwrites())
    transcript = run_of(team, *STRICT_MCP)
    assert "is held by" in transcript
    team.house.kill_daemon()
    (team.repo / ".corral" / "run").chmod(0o755)  # so that no daemon can start
    assert "as Corral knew it last" in run_of(team, *STRICT_MCP)
    assert (team.repo / HELD).read_text() == "the holder's\n"


def test_a_held_file_stays_where_the_bridge_dies_before_it_answers(team: Team, tmp_path: Path) -> None:
    team.plugin = plugin(tmp_path / "hooks alone", mod=False)
    holding(team)
    other = team.member()
    other.do(tool("Read", file_path=f"$CWD/{HELD}"))
    client, bridge = psutil.Process(other.pid), other.bridge
    with frozen(team.house):
        other.begin(overwrites(), text("Done."))
        team.until(lambda: any("answered" in " ".join(child.cmdline()) for child in client.children()))
        bridge.kill()
        team.until(other.has_done)
    assert "is held by" in other.told
    assert (team.repo / HELD).read_text() == "the holder's\n"


@pytest.mark.slow("the client waits until it gives the bridge up")
def test_a_held_file_stays_where_a_session_starts_while_the_daemon_is_frozen(guarded: Team) -> None:
    holding(guarded)
    with frozen(guarded.house):
        assert "is held by" in run_of(guarded)
    assert (guarded.repo / HELD).read_text() == "the holder's\n"


def test_a_held_file_stays_where_a_session_was_started_elsewhere(guarded: Team, make_repo: Callable[..., Path]) -> None:
    holding(guarded)
    for place in (guarded.repo.parent, make_repo("another")):
        transcript = run_of(guarded, "--add-dir", str(guarded.repo), cwd=place)
        assert "is held by" in transcript, place
    assert (guarded.repo / HELD).read_text() == "the holder's\n"


def run_of(team: Team, *flags: str, cwd: Path | None = None) -> str:
    """One session that reads and overwrites the held file; returns what it was told."""
    file = str(team.repo / HELD)
    steps = (tool("Read", file_path=file), tool("Write", file_path=file, content="by another\n"))
    run = team.run(*steps, flags=flags, cwd=cwd)
    return json.dumps([event for event in run.events if event["type"] == "user"])


def without_folder(house: Coordinated, _bin: Path) -> None:
    house.run("daemon", "stop")
    shutil.rmtree(house.root / ".corral")


def uninstalled(house: Coordinated, _bin: Path) -> None:
    house.run("uninstall", "--yes")
    assert not (house.root / ".claude" / "settings.local.json").exists()


def without_command(house: Coordinated, folder: Path) -> None:
    house.run("daemon", "stop")
    (folder / "corral").unlink()


def without_its_python(house: Coordinated, folder: Path) -> None:
    house.run("daemon", "stop")
    (folder / "corral").write_text('#!/bin/sh\nexec /nowhere/python -m corral "$@"\n')


WORLDS = [without_folder, uninstalled, without_command, without_its_python]


@pytest.mark.parametrize("world", WORLDS)
def test_where_corral_is_not_there_every_tool_works(
    team: Team, claude: Path, world: Callable[[Coordinated, Path], None]
) -> None:
    bin_folder = Path(team.env["PATH"].partition(os.pathsep)[0])
    world(team.house, bin_folder)
    for flags in (PLUGIN, (*PLUGIN, *STRICT_MCP), ()):
        (team.repo / HELD).write_text("before\n")
        steps = (tool("Read", file_path=f"$CWD/{HELD}"), overwrites(), tool("Bash", command="echo shell > shell.txt"))
        run: Run = run_client(claude, team.repo, script(*steps, text("Done.")), team.env, *flags)
        assert (team.repo / HELD).read_text() == "by another\n", run.events
        assert (team.repo / "shell.txt").exists()
        (team.repo / "shell.txt").unlink()


def test_without_python3_a_client_works(team: Team, claude: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "sh", "cat", "echo", "bash", "env", "ls"):
        (tools / name).symlink_to(program(name))
    team.house.run("daemon", "stop")
    env = {**team.env, "PATH": str(tools)}
    steps = (tool("Read", file_path=f"$CWD/{HELD}"), overwrites())
    run_client(claude, team.repo, script(*steps, text("Done.")), env, *PLUGIN)
    assert (team.repo / HELD).read_text() == "by another\n"


def test_the_blocking_hook_of_a_living_bridge_starts_no_process(team: Team) -> None:
    """What it costs: a shell that looks whether the bridge lives."""
    before = (team.repo / ".corral" / "logs" / "hook.log").exists()
    member = team.member()
    member.do(overwrites("new.txt"))
    (announced,) = (team.repo / ".corral" / "run" / "clients").iterdir()
    assert announced.name == f"{member.pid}.{member.bridge.pid}"
    assert psutil.pid_exists(member.bridge.pid)
    assert (team.repo / ".corral" / "logs" / "hook.log").exists() == before
