"""Starting runners in tests: an assignment in a folder of its own, and looks at a worker until it is finished."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from corral.core.instants import UTC
from corral.runners.process import survivors
from corral.runners.protocol import Assignment, Finished, Limits, Observation, Running
from corral.runners.tags import PROJECT_MARK, TASK_MARK
from tests.support.programs import requires

DEADLINE_S = 60.0
PAUSE_S = 0.04
"""Between two looks, which go through all processes of the machine."""

ON_LINUX = requires("prlimit")
"""Only Linux has tags."""

ESCAPES = """
import os, sys
where = os.path.abspath(sys.argv[1])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        nothing = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2): os.dup2(nothing, number)
        open(where + ".part", "w").write(str(os.getpid()))
        os.rename(where + ".part", where)
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
"""
"""A program whose grandchild leaves everything that it got from its parents: group, session, folder, files, environment.

It writes its pid into the file that is the argument.
"""

PROJECT_ID = "4e1f0f7c-0000-4000-8000-000000000000"


def clock() -> datetime:
    """The real time, as a runner wants it."""
    return datetime.now(UTC)


def make_assignment(folder: Path, **changes: Any) -> Assignment:
    """An assignment in ``folder/worktree`` with its log beside; any field can be given."""
    worktree = changes.pop("worktree", folder / "worktree")
    worktree.mkdir(exist_ok=True)
    fields: dict[str, Any] = {
        "task_id": str(uuid.uuid4()),
        "attempt": 1,
        "title": "a task",
        "command": None,
        "prompt": None,
        "worktree": worktree,
        "keeper": folder / "keepers" / str(uuid.uuid4()),
        "log": folder / "logs" / "1.log",
        "session_id": str(uuid.uuid4()),
        "env": {},
        "limits": Limits(),
        "identity_env": {},
        "project_id": PROJECT_ID,
    }
    return Assignment(**{**fields, **changes})


def look(running: Running, until: Callable[[Observation], object], *, deadline_s: float = DEADLINE_S) -> Observation:
    """Observe in real time until something is so."""
    end = time.monotonic() + deadline_s
    while True:
        seen = running.observe(clock())
        if until(seen):
            return seen
        assert time.monotonic() < end, f"it never came: {seen}"
        assert seen.finished is None, f"it ended before: {seen}"
        time.sleep(PAUSE_S)


def finish(running: Running, *, deadline_s: float = DEADLINE_S) -> Finished:
    """Observe in real time until it is finished."""
    finished = look(running, lambda seen: seen.finished, deadline_s=deadline_s).finished
    assert finished
    return finished


def wait(until: Callable[[], object], *, deadline_s: float = DEADLINE_S) -> None:
    """Wait for the world to be so."""
    end = time.monotonic() + deadline_s
    while not until():
        assert time.monotonic() < end, "it never came"
        time.sleep(PAUSE_S)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def kill_if_alive(pid: int) -> None:
    """Leave a process of a test's own not behind."""
    if is_alive(pid):
        psutil.Process(pid).kill()


def marks(task_id: str) -> dict[str, str]:
    """What the processes of a task carry."""
    return {PROJECT_MARK: PROJECT_ID, TASK_MARK: task_id}


def find_marked(task_id: str) -> list[int]:
    """The pids of every living process that carries a task's mark, wherever it went."""
    return [process.pid for process in survivors(None, {TASK_MARK: task_id})]


def kill(task_id: str) -> None:
    """Leave nothing of a task behind, whatever became of the test."""
    for pid in find_marked(task_id):
        psutil.Process(pid).kill()


def keeper_of(folder: Path) -> int:
    """The pid of the keeper of an attempt, by its record."""
    (line,) = [line for line in (folder / "record").read_text().splitlines() if line.startswith("keeper ")]
    return int(line.split()[1])
