"""Workers of a daemon that died: they go on, are found again, and only they are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from corral.runners.process import Feed, end_leftovers, kill_leftover, spawn, start_time
from tests.integration.running import find_marked, kill, marks, wait
from tests.support.programs import program

pytestmark = pytest.mark.faults
DAEMON = """
import json, os, sys
from dataclasses import replace
from pathlib import Path
from corral.runners.command import CommandRunner
from tests.integration.running import clock, make_assignment
assignment = make_assignment(Path(sys.argv[1]), command=sys.argv[2], task_id=sys.argv[3])
running = CommandRunner(os.environ).start(assignment, clock())
print(json.dumps([running.pid, running.pid_started]), flush=True)
os.kill(os.getpid(), 9)
"""


class Orphan(NamedTuple):
    """A worker whose daemon was killed with -9."""

    task_id: str
    pid: int
    started: float
    log: Path


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[Orphan]:
    task_id = str(uuid.uuid4())
    command = f"{program('setsid')} sleep 600 & sleep 1; echo still here; sleep 600"
    daemon = [sys.executable, "-c", DAEMON, str(tmp_path), command, task_id]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(daemon, env=env, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    pid, started = json.loads(done.stdout)
    yield Orphan(task_id, pid, started, tmp_path / "logs/1.log")
    kill(task_id)


def all_are_there(orphan: Orphan) -> bool:
    """Whether the worker's three processes run, one of them out of its group already."""
    pids = find_marked(orphan.task_id)
    with suppress(ProcessLookupError):
        return len(pids) == 3 and any(os.getpgid(pid) != orphan.pid for pid in pids)
    return False


def test_a_worker_outlives_its_daemon_and_its_log_goes_on(orphan: Orphan) -> None:
    wait(lambda: "still here" in orphan.log.read_text())
    assert start_time(orphan.pid) == pytest.approx(orphan.started, abs=1)


def test_leftovers_are_ended_wherever_they_went(orphan: Orphan) -> None:
    wait(lambda: all_are_there(orphan))
    assert end_leftovers(marks(orphan.task_id), orphan.pid, orphan.started)
    wait(lambda: not end_leftovers(marks(orphan.task_id), orphan.pid, orphan.started), deadline_s=5)
    assert find_marked(orphan.task_id) == []


def test_what_left_the_group_is_found_when_its_leader_is_gone(orphan: Orphan) -> None:
    wait(lambda: all_are_there(orphan))
    assert kill_leftover(orphan.pid, orphan.started, marks(orphan.task_id))
    wait(lambda: len(find_marked(orphan.task_id)) == 1, deadline_s=5)
    wait(lambda: not end_leftovers(marks(orphan.task_id), orphan.pid, orphan.started), deadline_s=5)


def test_a_process_that_only_has_the_pid_is_left_alone(orphan: Orphan) -> None:
    assert not kill_leftover(orphan.pid, orphan.started - 60, marks(orphan.task_id))
    assert psutil.pid_exists(orphan.pid)
    assert psutil.Process(orphan.pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("others", [{}, {"CORRAL_PROJECT_ID": "another-project"}])
def test_a_process_that_has_the_tasks_id_and_not_the_projects_mark_is_left_alone(
    tmp_path: Path, others: dict[str, str]
) -> None:
    task_id = str(uuid.uuid4())
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, **others, "CORRAL_TASK_ID": task_id}, cwd=tmp_path)
    try:
        wait(lambda: find_marked(task_id) == [process.pid])
        assert end_leftovers(marks(task_id), process.pid, start_time(process.pid), tmp_path / "elsewhere") == []
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("environ", [{}, {"CORRAL_PROJECT_ID": "another-project"}])
def test_a_leader_without_any_projects_mark_is_killed_only_in_its_worktree(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, **environ}, cwd=tmp_path, start_new_session=True)
    try:
        begun = start_time(process.pid)
        assert begun is not None
        assert not kill_leftover(process.pid, begun, marks("a-task"), tmp_path / "elsewhere")
        assert kill_leftover(process.pid, begun, marks("a-task"), tmp_path) == (not environ)
    finally:
        process.kill()
        process.wait()


def test_a_process_in_the_middle_of_an_exec_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = str(uuid.uuid4())
    process = spawn(["sleep", "60"], cwd=tmp_path, env={**os.environ, **marks(task_id)}, log=tmp_path / "log")
    wait(lambda: find_marked(task_id) == [process.pid])
    environ, cmdline = psutil.Process.environ, psutil.Process.cmdline
    looks = 5

    def seen_environ(self: psutil.Process) -> dict[str, str]:
        nonlocal looks
        looks -= self.pid == process.pid
        return {} if self.pid == process.pid and looks > 0 else environ(self)

    def seen_cmdline(self: psutil.Process) -> list[str]:
        return [] if self.pid == process.pid and looks > 0 else cmdline(self)

    # The window is microseconds wide, and real: the kernel shows neither of the two while it puts the new program in place.
    monkeypatch.setattr(psutil.Process, "environ", seen_environ)
    monkeypatch.setattr(psutil.Process, "cmdline", seen_cmdline)
    try:
        assert find_marked(task_id) == [process.pid]
    finally:
        process.kill()
        process.wait()


def test_no_process_no_leftover() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert not kill_leftover(ended.pid, 0.0, marks("a-task"))
    assert end_leftovers(marks(str(uuid.uuid4())), None, None) == []


def test_this_process_is_never_among_the_marked(tmp_path: Path) -> None:
    task_id = str(uuid.uuid4())
    program = f"from corral.runners.process import survivors; print(survivors(None, {marks(task_id)!r}))"
    env = {**os.environ, **marks(task_id), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_input_is_written_without_waiting_for_a_slow_reader(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = spawn(["sh", "-c", "sleep 0.3; wc -c"], cwd=tmp_path, env=dict(os.environ), log=log, takes_input=True)
    feed = Feed(process)
    assert feed.send(b"x" * 3_000_000)
    assert feed.waiting
    assert feed.send(b"end")

    def written() -> bool:
        feed.flush()
        return not feed.waiting

    wait(written)
    feed.close()
    assert process.wait(timeout=30) == 0
    assert log.read_text().strip() == "3000003"
    assert not feed.send(b"more")


def test_a_reader_that_left_closes_the_input(tmp_path: Path) -> None:
    process = spawn(["true"], cwd=tmp_path, env=dict(os.environ), log=tmp_path / "log", takes_input=True)
    process.wait(timeout=30)
    feed = Feed(process)
    assert not feed.send(b"x")


@pytest.mark.req("X18")
def test_a_log_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        spawn(["true"], cwd=tmp_path, env=dict(os.environ), log=tmp_path / "log")
    assert not (tmp_path / "precious").exists()
