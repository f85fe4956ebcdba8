"""The daemon comes back by itself: by its unit of the service manager, and by the bridges of open sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.config import crashes
from corral.config.paths import find_project, find_socket
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import requires
from tests.support.service_manager import Manager, real_systemd


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: Path) -> Manager:
    made = Manager(tmp_path / "manager")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", '/opt/a 100% "java" $HOME\\n')
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-api03-" + "k" * 80)
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy:3128")
    return made


def unit_of(house: Coordinated) -> dict[str, Any]:
    """Install the unit; returns what the command said."""
    return dict(house.json("daemon", "install", "--yes"))


@pytest.mark.req("NFR-REL-005")
def test_a_unit_that_is_installed_starts_the_daemon_for_commands(house: Coordinated, manager: Manager) -> None:
    unit = unit_of(house)
    text = Path(unit["file"]).read_text()
    for line in ("KillMode=process", "OOMPolicy=continue", "Restart=on-failure", "WantedBy=default.target"):
        assert line in text.splitlines()
    assert (
        unit["environment"]["PATH"] == os.environ["PATH"]
        and unit["environment"]["JAVA_HOME"] == os.environ["JAVA_HOME"]
    )
    (record,) = (Path(os.environ["HOME"]) / ".local/state/corral/services").iterdir()
    assert not [secret for secret in ("sk-ant", "secret@") if secret in text + record.read_text() + json.dumps(unit)]
    assert manager.started() == 1, "nothing ran, so it was started"
    pid = house.daemon_pid()
    assert pid is not None and psutil.Process(pid).environ()["JAVA_HOME"] == os.environ["JAVA_HOME"]
    assert "ANTHROPIC_API_KEY" not in psutil.Process(pid).environ()
    house.kill_daemon()
    output = house.run("status", CORRAL_LOCKS_TTL_S="9").stderr
    assert "CORRAL_LOCKS_TTL_S does not count" in output and "`corral config set locks.ttl_s VALUE`" in output
    assert manager.started() == 2 and house.daemon_pid() is not None
    house.run("daemon", "stop")
    assert house.run("status", check=False).returncode == 5, "a deliberate stop is a stop"
    house.submit("Changes something", "true")
    assert manager.started() == 3


def test_a_start_by_the_unit_that_fails_says_why(house: Coordinated, manager: Manager) -> None:
    unit_of(house)
    house.stop()
    (house.root / ".corral" / "run" / "settings.json").unlink()  # the last valid settings
    (house.root / ".corral" / "local.yaml").write_text("locks: {ttl_s: no}\n")
    done = house.run("daemon", "start", check=False)
    assert done.returncode == 2 and "locks.ttl_s" in done.stderr and manager.started() == 2


@pytest.mark.req("NFR-REL-002")
def test_the_unit_starts_the_daemon_where_no_log_can_be_written(house: Coordinated, manager: Manager) -> None:
    unit_of(house)
    house.stop()
    logs = house.root / ".corral" / "logs"
    logs.rename(logs.with_name("before"))
    logs.touch()
    house.run("daemon", "start")
    assert house.daemon_pid() == int((manager.folder / "pid").read_text()), "by the unit, and not without it"


WORK = "echo $$ > {0}.new; mv {0}.new {0}; while [ ! -e {0}.go ]; do sleep 0.1; done; echo done > done.txt"


def worker_of(house: Coordinated, mark: Path) -> tuple[str, psutil.Process]:
    """Submit a task, and wait for its worker, which ends once the mark with ``.go`` behind it is there."""
    task = house.submit("Waits", WORK.format(mark))
    eventually(mark.exists)
    return task, psutil.Process(int(mark.read_text()))


@pytest.mark.req("NFR-REL-005")
@pytest.mark.slow("five starts of a daemon by the real systemd")
def test_the_real_systemd_brings_a_killed_daemon_back_and_leaves_workers(
    house: Coordinated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with real_systemd(tmp_path / "systemd") as folder:
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        unit = unit_of(house)["name"]

        def systemctl(*words: str) -> None:
            subprocess.run(["systemctl", "--user", *words, unit], check=True)

        task, worker = worker_of(house, tmp_path / "first")
        pid, began = house.daemon_pid(), time.monotonic()
        house.kill_daemon()
        eventually(lambda: house.daemon_pid() not in (pid, None))
        assert time.monotonic() - began < 30 and worker.is_running()
        pid = house.daemon_pid()
        systemctl("restart")
        eventually(lambda: house.daemon_pid() not in (pid, None))
        assert worker.is_running()
        (tmp_path / "first.go").touch()
        house.run("wait", task)
        assert [row["number"] for row in house.ask("GET", f"/tasks/{task}/detail")["attempt_history"]] == [1]
        _, worker = worker_of(house, tmp_path / "second")
        systemctl("stop")
        assert not worker.is_running() and house.daemon_pid() is None
        house.run("daemon", "uninstall")


def test_a_signal_ends_workers_unless_the_unit_restarts(house: Coordinated, manager: Manager, tmp_path: Path) -> None:
    unit = unit_of(house)
    _, worker = worker_of(house, tmp_path / "mark")
    for jobs, stays in (
        ("7 another.service restart running\n8 {} restart running", True),
        ("8 {} stop running", False),
    ):
        (manager.folder / "jobs").write_text(jobs.format(Path(unit["file"]).name))
        psutil.Process(house.daemon_pid() or 0).terminate()
        eventually(lambda: house.daemon_pid() is None)
        eventually(lambda: worker.is_running() is stays)  # noqa: B023 - it is called before the next round
        house.run("daemon", "start")


@requires("systemd-analyze")
def test_systemd_itself_accepts_the_unit(house: Coordinated, manager: Manager) -> None:
    unit = unit_of(house)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", unit["file"]], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and Path(unit["file"]).name not in done.stderr, done.stderr


def test_a_verification_gets_the_recorded_environment_whoever_starts(
    coordinate: Callable[..., Coordinated], manager: Manager, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    house = coordinate(verify=(f"printf '%s' \"$JAVA_HOME\" > {seen}",))
    unit_of(house)
    house.stop()
    (manager.folder / "unreachable").touch()
    house.run("task", "submit", "--title", "x", "--command", "echo x > x.txt", JAVA_HOME="/another/java")
    house.run("wait", "--all")
    assert seen.read_text() == os.environ["JAVA_HOME"]
    assert manager.started() == 2, "the unit was asked for, and could not be had"


def test_a_unit_is_taken_back_and_refused_to_agents(house: Coordinated, manager: Manager) -> None:
    assert "needs a person" in house.run("daemon", "install", "--yes", check=False, CLAUDECODE="1").stderr
    unit = unit_of(house)
    assert house.json("daemon", "uninstall") == {"removed": unit["file"], "stopped": True}
    assert house.daemon_pid() is None and not Path(unit["file"]).exists()
    assert not [*(Path(os.environ["HOME"]) / ".local/state/corral/services").iterdir()]
    started = manager.started()
    house.run("daemon", "start")
    assert manager.started() == started and house.daemon_pid() is not None
    (manager.folder / "unreachable").touch()
    refused = house.run("daemon", "install", "--yes", check=False)
    assert refused.returncode != 0 and "No medium found" in refused.stderr and not Path(unit["file"]).exists()


@pytest.fixture
def bridge(house: Coordinated) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Open a session's bridge, which lives until the test ends."""
    opened: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "corral", "mcp"]
        opened.append(subprocess.Popen(argv, cwd=house.root, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        return opened[-1]

    yield start
    for process in opened:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        process.wait(timeout=30)


def connections(house: Coordinated) -> int:
    """How many connections the daemon of a project has accepted, or will."""
    socket = str(find_socket(find_project(house.root)))
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return sum(fields[5] == "03" and fields[7:] == [socket] for fields in lines)


@pytest.mark.req("NFR-REL-005")
def test_a_bridge_brings_a_killed_daemon_back_until_it_dies_too_often(
    house: Coordinated, bridge: Callable[[], subprocess.Popen[bytes]]
) -> None:
    house.ask("GET", "/health")
    eventually(lambda: not connections(house))
    bridge()
    eventually(lambda: connections(house))  # what it holds
    house.kill_daemon()
    eventually(lambda: house.daemon_pid() is not None)
    eventually(lambda: connections(house))
    project = find_project(house.root)
    dead = crashes.note(project)
    assert dead is not None
    for _death in range(crashes.MOST - 1):  # as if others had died meanwhile
        crashes.note_failed_start(project, dead)
    house.kill_daemon()
    eventually(lambda: crashes.given_up(project))
    assert house.daemon_pid() is None
    (need,) = (need for need in house.json("status")["needs_you"] if need["kind"] == "crashing_daemon")
    assert "3 times within 60 s" in need["what"]
    house.run("daemon", "restart")
    assert "crashing_daemon" not in {need["kind"] for need in house.json("status")["needs_you"]}


def test_no_bridge_ends_a_deliberate_stop(house: Coordinated) -> None:
    project, now = find_project(house.root), time.time()
    house.ask("GET", "/health")
    announced = project.daemon_json.read_bytes()
    house.run("daemon", "stop")
    assert crashes.to_revive(project, now) is None, "it removed its file, and left a mark"
    project.daemon_json.write_bytes(announced)
    assert crashes.to_revive(project, now) is None, "one that was killed while it stopped was stopped all the same"
    project.stopped_file.unlink()
    assert crashes.to_revive(project, now) is not None, "this one died"
    project.config_file.unlink()
    assert crashes.to_revive(project, now) is None, "Corral was uninstalled"
