"""kill -9 while programs print keys: the next start seals the logs whose end nobody saw."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.running import keeper_of
from tests.support.coordinated import Coordinated, eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

KEY = "sk-ant-api03-printed-0123456789abcdefghijklmnop"
SPLIT = f"{KEY[:20]}''{KEY[20:]}"
"""A shell word that prints the key without containing it."""


@pytest.mark.req("NFR-SEC-002", "FR-CONFIG-004")
def test_the_logs_of_a_killed_daemon_are_sealed_by_the_next(coordinate: Callable[..., Coordinated]) -> None:
    once = "[ -e ../../began-{0} ] && exit 0; touch ../../began-{0}"
    house = coordinate(config="tasks: {max_retries: 0}", verify=(f"{once.format('b')}; echo {SPLIT}; sleep 600",))
    worker = house.submit("prints", f"{once.format('a')}; echo {SPLIT}; sleep 600")
    logs = house.root / ".corral" / "logs"
    eventually(lambda: files_with_key(logs / "tasks" / worker), 60)
    changing = house.submit("lands", "echo x > new.txt")
    eventually(lambda: files_with_key(logs / "merges"), 60)
    house.kill_daemon()
    run = house.root / ".corral" / "run"
    for folder in (*run.glob(f"attempts/{worker}.*"), *run.glob("verifications/*")):
        os.kill(keeper_of(folder), signal.SIGKILL)  # else what it keeps goes on, and its end is seen
    left = files_with_key(logs)
    assert len(left) == 2, "the programs wrote their logs themselves"

    house.run("daemon", "start")
    house.run("wait", worker, changing, "--timeout", "90", check=False)
    eventually(lambda: not files_with_key(logs), 30)
    for log in left:
        assert b"[redacted]" + b"*" * (len(KEY) - 10) in log.read_bytes(), "overwritten, and otherwise kept"
    house.stop()


def files_with_key(folder: Path) -> list[Path]:
    """The logs below a folder that contain the key."""
    return [file for file in folder.rglob("*.log") if KEY.encode() in file.read_bytes()]
