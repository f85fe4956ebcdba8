"""Processes that leave everything that they inherited from their worker, and end with its task all the same."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from corral.runners.command import CommandRunner
from corral.runners.process import end_leftovers
from tests.integration.running import (
    ESCAPES,
    ON_LINUX,
    clock,
    finish,
    is_alive,
    kill,
    kill_if_alive,
    make_assignment,
    marks,
    wait,
)
from tests.integration.test_runner_process import DAEMON

pytestmark = [pytest.mark.faults, ON_LINUX]


@pytest.mark.req("FR-SWARM-004")
def test_who_leaves_everything_that_it_inherited_does_not_outlive_its_task(tmp_path: Path) -> None:
    (tmp_path / "escapes.py").write_text(ESCAPES)
    where = tmp_path / "where"
    command = f"{sys.executable} {tmp_path}/escapes.py {where}; until test -e {where}; do sleep 0.02; done"
    finished = finish(CommandRunner(os.environ).start(make_assignment(tmp_path, command=command), clock()))
    pid = int(where.read_text())
    try:
        assert finished.success
        assert not is_alive(pid)
        assert [process.partition("(")[2] for process in finished.result["left_processes"]] == [f"pid {pid})"]
    finally:
        kill_if_alive(pid)


def test_what_a_command_leaves_in_its_background_is_named_and_who_leaves_nothing_has_no_such_entry(
    tmp_path: Path,
) -> None:
    start = CommandRunner(os.environ).start
    finished = finish(
        start(
            make_assignment(tmp_path, command="sleep 601 & until grep -q sleep /proc/$!/comm; do :; done; echo $!"),
            clock(),
        )
    )
    assert finished.result["left_processes"] == [f"sleep 601 (pid {finished.result['output']})"]
    assert "left_processes" not in finish(start(make_assignment(tmp_path, command="true"), clock())).result


@pytest.mark.req("D19")
def test_who_left_everything_that_it_inherited_is_found_when_its_daemon_is_gone(tmp_path: Path) -> None:
    task_id, where = str(uuid.uuid4()), tmp_path / "where"
    (tmp_path / "escapes.py").write_text(ESCAPES)
    command = f"{sys.executable} {tmp_path}/escapes.py {where}; sleep 600"
    daemon = [sys.executable, "-c", DAEMON, str(tmp_path), command, task_id]
    subprocess.run(daemon, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True)
    wait(where.exists)
    pid = int(where.read_text())
    try:
        wait(lambda: psutil.Process(pid).name() == "sleep")
        assert psutil.Process(pid).environ() == {}
        assert pid not in end_leftovers(marks(str(uuid.uuid4())), None, None) and is_alive(pid), "another task's end"
        assert pid in end_leftovers(marks(task_id), None, None)
        wait(lambda: not end_leftovers(marks(task_id), None, None))
        assert not is_alive(pid)
    finally:
        kill(task_id)
        kill_if_alive(pid)
