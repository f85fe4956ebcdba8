"""A session dies with work in its hands, and the daemon over it: all that it held comes free at once, or nothing yet."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psutil
import pytest

from tests.support.coordinated import Coordinated, eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]
HELD = ("active", "running", 1, 0)
FREE = ("disconnected", "pending", 0, 1)
_STANDING = """SELECT (SELECT status FROM agent_sessions WHERE session_id = 'doomed'), (SELECT status FROM tasks),
    (SELECT COUNT(*) FROM file_locks), (SELECT COUNT(*) FROM handoffs)"""


@pytest.fixture
def client() -> Iterator[subprocess.Popen[bytes]]:
    """The process of a session, which dies when it is told to."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def _standing(house: Coordinated) -> tuple[Any, ...]:
    """How the session, its task, its lock and its handoff stand, in one snapshot."""
    with closing(sqlite3.connect(f"file:{house.root}/.corral/corral.db?mode=ro", uri=True, timeout=10)) as conn:
        row: tuple[Any, ...] = conn.execute(_STANDING).fetchone()
    return row


def _at_work(house: Coordinated, client: subprocess.Popen[bytes]) -> None:
    house.hook("SessionStart", "doomed", _hook={"pid": client.pid, "source": "hook"})
    house.edit("doomed", "src/a.py")
    house.ask("POST", "/tasks", {"description": "for a session"})
    assert house.ask("POST", "/tasks/claim", {"session_id": "doomed"})["success"]
    assert _standing(house) == HELD


def test_a_killed_session_leaves_all_that_it_held_in_one_commit(
    house: Coordinated, client: subprocess.Popen[bytes]
) -> None:
    _at_work(house, client)
    client.kill()
    client.wait()
    deadline = time.monotonic() + 20
    while (seen := _standing(house)) != FREE:
        assert seen == HELD, "never half of it"
        assert time.monotonic() < deadline
    assert house.ask("POST", "/tasks/claim", {"session_id": "heir"})["success"]


@pytest.mark.parametrize("point", ["session.tasks_returned", "session.ended"])
def test_a_daemon_killed_while_it_ends_a_session_has_done_nothing_and_the_next_does_all(
    house: Coordinated, client: subprocess.Popen[bytes], point: str
) -> None:
    house.run("daemon", "start", CORRAL_CRASH_AT=point)
    _at_work(house, client)
    daemon = psutil.Process(house.daemon_pid() or 0)
    client.kill()
    client.wait()
    eventually(lambda: not daemon.is_running() or daemon.status() == psutil.STATUS_ZOMBIE)
    assert _standing(house) == HELD
    house.run("daemon", "start")
    eventually(lambda: _standing(house) == FREE)


def test_what_a_session_held_that_another_of_its_process_follows_goes_to_those_who_wait(
    house: Coordinated, client: subprocess.Popen[bytes]
) -> None:
    origin = {"pid": client.pid, "source": "hook"}
    house.hook("SessionStart", "before", _hook=origin)
    house.ask("POST", "/locks/acquire", {"session_id": "before", "paths": ["src/a.py"]})
    with ThreadPoolExecutor(1) as pool:
        wish = {"session_id": "other", "paths": ["src/a.py"], "wait_s": 60}
        waiting = pool.submit(house.ask, "POST", "/locks/acquire", wish, timeout_s=70)
        eventually(lambda: "other" in {row["session_id"] for row in house.ask("GET", "/sessions")})
        began = time.monotonic()
        house.hook("SessionStart", "after", source="clear", _hook=origin)
        assert waiting.result()["success"]
        assert time.monotonic() - began < 10, "it was told, and did not have to look by itself"
    before = house.ask("GET", "/sessions/before")
    assert (before["status"], before["end_reason"]) == ("disconnected", "superseded")
