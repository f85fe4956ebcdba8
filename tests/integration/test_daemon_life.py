"""The daemon's life: one per project, started by need, stopped for certain, recovered by itself."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from corral.client.connection import Client
from corral.config import crashes
from corral.config.paths import find_project, socket_path
from tests.conftest import NEEDS_RIGHTS_DROPPED, WITHOUT_ROOTS_RIGHTS, commit, git
from tests.integration.running import find_marked
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable


@pytest.fixture
def running(shared_house: Coordinated) -> Coordinated:
    """A house whose daemon runs and is left running."""
    shared_house.ask("GET", "/health")
    return shared_house


def test_twenty_clients_at_once_start_exactly_one_daemon(house: Coordinated) -> None:
    health: list[int] = []

    def ask() -> None:
        client = Client(find_project(house.root))
        health.append(int(client.request("GET", "/health")["pid"]))
        client.close()

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(health) == 20
    assert len(set(health)) == 1


def test_it_is_detached_and_leaves_no_child_of_the_starter(running: Coordinated) -> None:
    process = psutil.Process(running.daemon_pid() or 0)
    assert os.getsid(process.pid) != os.getsid(0)
    assert process.pid not in {child.pid for child in psutil.Process().children(recursive=True)}
    assert process.cwd() == "/"


def test_it_lives_on_if_whoever_asked_for_it_is_killed_before_it_is_ready(house: Coordinated, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "corral.daemon", "--project", str(house.root)]
    with psutil.Popen(command) as starter:
        eventually(starter.children)
        (daemon,) = starter.children()
        daemon.suspend()
        starter.kill()
    daemon.resume()
    assert eventually(house.daemon_pid) == daemon.pid


def test_status_tells_without_starting_and_stop_waits_for_death_and_a_second_stop_is_harmless(
    house: Coordinated,
) -> None:
    off = house.run("daemon", "status", "--json", check=False)
    assert json.loads(off.stdout)["running"] is False
    assert house.daemon_pid() is None
    house.run("daemon", "start")
    pid, on = house.daemon_pid(), house.json("daemon", "status")
    assert on["running"] is True
    assert on["pid"] == pid is not None
    assert on["address"] is None, "it listens on TCP only where somebody asked for it"
    assert on["socket"] == str(socket_path(find_project(house.root)))
    assert on["version"]
    assert house.run("daemon", "stop").stdout.strip() == "stopped"
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert not socket_path(find_project(house.root)).exists()
    assert "not running" in house.run("daemon", "stop").stdout
    assert house.run("daemon", "status", check=False).returncode == 5


def test_a_daemon_is_seen_and_stopped_while_a_branch_without_settings_is_checked_out(house: Coordinated) -> None:
    off = house.run("daemon", "status", check=False).stdout
    house.run("daemon", "start")
    pid = house.daemon_pid()
    (house.root / ".corral" / "config.yaml").rename(house.root / "config.yaml")
    assert house.json("daemon", "status")["pid"] == house.json("status")["daemon"]["pid"] == pid
    assert "branch has no .corral/config.yaml" in house.run("daemon", "restart", check=False).stderr
    assert house.json("daemon", "status")["pid"] == pid
    assert house.run("daemon", "stop").stdout.strip() == "stopped"
    assert house.run("daemon", "status", check=False).stdout == off


def test_no_start_fails_while_a_branch_without_settings_is_checked_out(house: Coordinated) -> None:
    house.run("daemon", "start")
    house.kill_daemon()
    (house.root / ".corral" / "config.yaml").rename(house.root / "config.yaml")
    refused = house.run("task", "list", check=False)
    assert refused.returncode != 0 and "branch has no .corral/config.yaml" in refused.stderr
    (house.root / "config.yaml").rename(house.root / ".corral" / "config.yaml")
    assert crashes.failed_lately(find_project(house.root)) is None, "nobody tried to start one"


def test_a_stop_ends_a_daemon_that_is_only_starting(house: Coordinated) -> None:
    project = find_project(house.root)

    def is_claimed() -> bool:
        with project.lock_file.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    argv = [sys.executable, "-m", "corral.daemon", "--project", str(house.root)]
    with subprocess.Popen(argv, cwd=house.root) as starter:
        eventually(is_claimed)
        assert "stopped" in house.run("daemon", "stop").stdout
        starter.wait()
    assert not is_claimed() and house.daemon_pid() is None


@pytest.mark.req("X2")
def test_run_files_are_private(running: Coordinated) -> None:
    run = running.root / ".corral" / "run"
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    for name in ("token", "daemon.json", "corral.sock"):
        assert stat.S_IMODE((run / name).stat().st_mode) & 0o077 == 0, name


def test_every_subfolder_and_worktree_meets_the_same_daemon(running: Coordinated, tmp_path: Path) -> None:
    house = running
    git(house.root, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "side")
    pids = {
        house.json("daemon", "status", cwd=folder)["pid"]
        for folder in (house.root, house.root / "src", tmp_path / "linked")
    }
    assert len(pids) == 1


def test_two_projects_have_two_daemons(running: Coordinated, coordinate: Callable[..., Coordinated]) -> None:
    other = coordinate()
    running.ask("POST", "/sessions", {"session_id": "of the first"})
    other.ask("POST", "/sessions", {"session_id": "of the second"})
    assert running.daemon_pid() != other.daemon_pid()
    assert [row["session_id"] for row in other.ask("GET", "/sessions")] == ["of the second"]
    assert "of the second" not in str(running.ask("GET", "/sessions"))


def test_drain_lets_a_running_task_finish(house: Coordinated) -> None:
    marker = house.root / "began"
    task = house.submit("short", f"touch {marker}; sleep 2; echo done > out.txt")
    later = house.submit("later", "echo later > later.txt", "--wait-for", task)
    eventually(marker.exists)
    house.run("daemon", "stop", "--drain")
    house.run("daemon", "start")
    house.run("wait", task, later, "--timeout", "30")
    assert house.json("task", "detail", task)["attempts"] == 1


def test_a_second_stop_without_drain_ends_what_the_first_one_waits_for(house: Coordinated) -> None:
    marker = house.root / "began"
    house.submit("long", f"touch {marker}; sleep 600")
    eventually(marker.exists)
    house.ask("POST", "/daemon/stop", {"drain": True})
    eventually(lambda: '"event": "stopping"' in (house.root / ".corral/logs/corral.log").read_text())
    assert house.json("daemon", "stop")["stopped"] is True
    assert house.daemon_pid() is None


def test_a_worker_outlives_its_daemon_and_the_next_one_lands_what_it_made(house: Coordinated) -> None:
    gate, ran = house.root.parent / "gate", house.root.parent / "ran"
    task = house.submit("long", f"echo x >> {ran}; while [ ! -e {gate} ]; do sleep 0.05; done; echo done > out.txt")
    eventually(lambda: house.ask("GET", f"/tasks/{task}/detail")["started_at"])
    pids = {house.daemon_pid()}
    for end in (house.kill_daemon, partial(house.run, "daemon", "restart")):
        end()
        assert house.json("task", "detail", task)["status"] == "running", end
        assert house.daemon_pid() not in {None, *pids}, "another process took over"
        pids.add(house.daemon_pid())
    gate.touch()
    house.run("wait", task, "--timeout", "40")
    detail = house.json("task", "detail", task)
    assert (detail["status"], detail["attempts"], detail["crashes"]) == ("completed", 1, 0)
    assert detail["merge"]["state"] == "landed"
    assert ran.read_text().split() == ["x"]


def test_a_stop_ends_a_worker_that_outlived_its_daemon(house: Coordinated) -> None:
    task = house.submit("long", "sleep 600")
    eventually(lambda: house.json("task", "detail", task)["started_at"])
    house.kill_daemon()
    assert find_marked(task)
    house.run("daemon", "stop")
    assert find_marked(task) == []
    assert not any((house.root / ".corral" / "run" / "attempts").iterdir())


def test_a_changed_configuration_is_taken_over_and_a_broken_one_is_reported(house: Coordinated) -> None:
    file = house.root / ".corral" / "config.yaml"
    before = house.ask("GET", "/config")["settings"]["supervisor"]["max_agents"]
    file.write_text(file.read_text().replace(f"max_agents: {before}", "max_agents: 3"))
    eventually(lambda: house.ask("GET", "/config")["settings"]["supervisor"]["max_agents"] == 3)
    file.write_text(file.read_text().replace("max_agents: 3", "max_agents: many"))
    error = eventually(lambda: house.json("status")["config_error"])
    assert "supervisor.max_agents" in json.dumps(error)
    assert house.ask("GET", "/config")["settings"]["supervisor"]["max_agents"] == 3


def test_how_a_worker_is_started_and_stopped_follows_the_settings_of_the_moment(
    house: Coordinated, tmp_path: Path
) -> None:
    house.configure("supervisor: {stop_grace_s: 60}\n")
    house.run("daemon", "start")
    client = executable(tmp_path / "client", f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 7\n")
    chosen = f"supervisor: {{stop_grace_s: 0.1}}\nrunners: {{claude: {{command: {client}}}}}\n"
    house.configure(chosen)
    eventually(lambda: house.ask("GET", "/config")["settings"]["runners"]["claude"]["command"] == str(client))
    house.trust()
    asked = house.json("task", "submit", "--title", "ask", "--prompt", "hello", "--retries", "0")["task_id"]
    house.run("wait", asked, "--timeout", "40", check=False)
    assert (tmp_path / "ran").exists(), "the client that the file names now is the one that runs"
    deaf = house.submit("deaf", "trap '' TERM; echo deaf; while :; do sleep 0.1; done", "--retries", "0")
    eventually(lambda: "deaf" in house.run("task", "logs", deaf, check=False).stdout)
    began = time.monotonic()
    house.run("task", "cancel", deaf)
    house.run("wait", deaf, "--timeout", "40", check=False)
    assert time.monotonic() - began < 30, "the minute of the start is not in force any more"


@NEEDS_RIGHTS_DROPPED
def test_a_read_only_corral_folder_is_an_error_with_a_remedy(house: Coordinated) -> None:
    str(Path(__file__).resolve().parents[2] / "daemon")
    command = [*WITHOUT_ROOTS_RIGHTS, sys.executable, "-m", "corral", "task", "list"]
    (house.root / ".corral").chmod(0o500)
    try:
        done = subprocess.run(
            command,
            cwd=house.root,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        (house.root / ".corral").chmod(0o700)
    assert done.returncode == 1
    assert "CORRAL-ERR-008" in done.stderr and "repair the permissions" in done.stderr
    assert house.json("task", "list") == [], "and once it may be written, all is well"


def test_git_variables_of_the_starter_do_not_reach_the_daemon(house: Coordinated, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    house.run("daemon", "start", GIT_DIR=str(other / ".git"), GIT_INDEX_FILE="/nonexistent")
    house.carry_out("hello", "echo hello > hello.txt")
    assert git(house.root, "show", "main:hello.txt") == "hello"


def test_the_log_is_json_with_the_required_fields(running: Coordinated) -> None:
    lines = [json.loads(line) for line in running.run("daemon", "logs").stdout.splitlines()]
    assert lines
    assert {"timestamp", "level", "component", "event"} <= set(lines[0])


@pytest.mark.executed
def test_an_interrupted_command_exits_with_130(house: Coordinated) -> None:
    # A run in the background of a shell ignores the signal, and so would what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    house.run("daemon", "start")
    house.submit("long", "sleep 60")
    process = subprocess.Popen(
        [sys.executable, "-m", "corral", "wait", "--all"], cwd=house.root, stderr=subprocess.PIPE
    )
    eventually(lambda: len(psutil.Process(process.pid).net_connections("unix")) > 0)
    process.send_signal(2)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors


def test_what_is_cleaned_away_under_a_running_daemon_comes_back_and_nobody_is_forgotten(house: Coordinated) -> None:
    home = house.root / ".corral"
    commit(house.root, {".corral/config.yaml": (home / "config.yaml").read_text()})

    def running(name: str) -> tuple[str, Path]:
        marker, begun = house.root.parent / f"{name} go on", house.root.parent / f"{name} begun"
        waits = f"touch '{begun}'; while [ ! -e '{marker}' ]; do sleep 0.1; done"
        task = house.submit(name, f"{waits}; echo done > {name}.txt")
        eventually(begun.exists)
        return task, marker

    def is_mended_after(cleaned: Callable[[], object], task: str) -> None:
        pid, token = house.daemon_pid(), (home / "run" / "token").read_text()
        cleaned()
        assert house.json("task", "detail", task)["status"] in ("running", "queued")
        assert house.daemon_pid() == pid
        eventually((home / "run" / "token").exists)  # the socket is back a moment before the files beside it
        assert (home / "run" / "token").read_text() == token
        assert json.loads((home / "run" / "daemon.json").read_text())["pid"] == pid
        assert stat.S_IMODE((home / "run").stat().st_mode) == 0o700

    def everything() -> None:
        shutil.rmtree(home, ignore_errors=True)
        git(house.root, "checkout", "--", ".corral")

    task, marker = running("first")
    # a folder in which something appears meanwhile stays
    is_mended_after(lambda: git(house.root, "clean", "-fdxq", check=False), task)
    is_mended_after(lambda: shutil.rmtree(home / "run", ignore_errors=True), task)
    is_mended_after(socket_path(find_project(house.root)).unlink, task)
    marker.touch()
    house.run("wait", task, "--timeout", "60")
    assert git(house.root, "show", "main:first.txt") == "done"
    house.kill_daemon()
    assert house.json("task", "detail", task)["merge"]["state"] == "landed"
    task, marker = running("second")
    is_mended_after(everything, task)
    marker.touch()  # nothing lands: the worktree of the task went too


def test_a_socket_in_the_runtime_folder_comes_back_like_any_other(
    coordinate: Callable[..., Coordinated], make_repo: Callable[..., Path]
) -> None:
    house = coordinate(make_repo("d" * 120))
    house.run("daemon", "start")
    pid, place = house.daemon_pid(), socket_path(find_project(house.root))
    assert not place.is_relative_to(house.root)
    shutil.rmtree(place.parent, ignore_errors=True)
    house.run("status")
    assert house.daemon_pid() == pid


def test_who_finds_the_socket_is_answered_even_while_the_rest_cannot_be_put_back(house: Coordinated) -> None:
    house.run("daemon", "start")
    pid, run = house.daemon_pid(), house.root / ".corral" / "run"

    def is_in_the_way() -> bool:
        shutil.rmtree(run / "bin", ignore_errors=True)
        with contextlib.suppress(IsADirectoryError):  # the daemon was faster, and put it back
            (run / "bin").touch()
        return (run / "bin").is_file()

    assert eventually(is_in_the_way)
    place = socket_path(find_project(house.root))
    place.unlink()
    eventually(place.exists)
    assert house.ask("GET", "/health", timeout_s=10)["pid"] == pid
    (run / "bin").unlink()
    assert eventually(lambda: (run / "bin" / "corral").exists())
    assert house.ask("GET", "/health", timeout_s=10)["pid"] == pid


def test_a_worker_finds_corral_whatever_path_the_daemon_was_started_with(house: Coordinated) -> None:
    task = house.submit("who", "corral --version > version.txt", "--retries", "0")
    assert not any(Path(folder, "corral").exists() for folder in os.environ["PATH"].split(os.pathsep))
    house.run("wait", task, "--timeout", "40")
    assert git(house.root, "show", "main:version.txt").startswith("corral ")


def test_a_daemon_that_a_worker_started_does_not_end_with_that_worker(
    house: Coordinated, coordinate: Callable[..., Coordinated]
) -> None:
    other = coordinate()
    house.carry_out("start another", f"cd {other.root} && corral daemon start", "--retries", "0")
    assert other.daemon_pid() is not None


def test_a_session_that_falls_silent_is_given_up(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="sessions: {stale_after_s: 2}")
    house.run("daemon", "start")
    house.hook("SessionStart", "s", source="startup")
    house.edit("s", "src/a.py")
    row = eventually(
        lambda: [session for session in house.json("session", "list") if session["status"] == "disconnected"]
    )[0]
    assert row["end_reason"] == "silent"
    assert house.json("lock", "list") == []
