"""A machine that sleeps and a clock that is set: nobody's worker is taken for stalled, and nothing waits for hours."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.integration.running import find_marked
from tests.integration.supervision import House, settings_with
from tests.support.coordinated import Coordinated, eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

ASLEEP_S = 11.0
LIMIT_S = 10


@pytest.mark.req("D11")
@pytest.mark.parametrize("jump_s", [400, 8 * 3600, -400, -8 * 3600])
def test_a_clock_that_jumps_ends_no_worker_and_counts_no_attempt(repo: Path, jump_s: int) -> None:
    gate = repo.parent / "gate"
    house = House(repo, settings_with(agents={"stalled_after_s": 300}))
    try:
        task_id = house.submit(f"while [ ! -e {gate} ]; do sleep 0.05; done; echo x > out.txt", timeout_s=360)
        house.until(lambda: house.detail(task_id)["started_at"] is not None)
        for _ in range(3):
            house.skipped += timedelta(seconds=jump_s)
            house.until(lambda: True)
            assert house.supervisor.running_count() == 1
        gate.touch()
        detail = house.until_status(task_id, "completed")
        assert detail["attempts"] == 1 and "task.retried" not in [event["kind"] for event in detail["history"]]
        house.settle()
    finally:
        house.close()


@pytest.mark.req("D11")
def test_a_backoff_that_began_before_the_clock_was_set_back_is_over_in_time(repo: Path) -> None:
    house = House(repo, settings_with(tasks={"max_retries": 1, "retry_initial_s": 3, "retry_max_s": 3}))
    try:
        ran = repo.parent / "ran"
        task_id = house.submit(f"test -e {ran} && exit 0; touch {ran}; exit 1")
        house.until(lambda: house.detail(task_id)["not_before_at"] is not None)
        house.skipped -= timedelta(hours=8)
        house.until_status(task_id, "completed", timeout_s=20)
        house.settle()
    finally:
        house.close()


@pytest.mark.req("D11")
def test_a_machine_that_slept_finds_its_workers_where_it_left_them(coordinate: Callable[..., Coordinated]) -> None:
    """All of it stands still, as in a laptop whose lid is closed: the daemon and what it runs."""
    house = coordinate(config=f"agents: {{stalled_after_s: {LIMIT_S}}}\n")
    gate = house.root.parent / "gate"
    house.run("daemon", "start")
    task = house.submit(
        "silent", f"while [ ! -e {gate} ]; do sleep 0.1; done; echo x > out.txt", "--timeout", str(LIMIT_S)
    )
    eventually(lambda: find_marked(task))
    daemon = house.running_pid()
    asleep = [daemon, *find_marked(task)]
    try:
        for pid in asleep:
            with suppress(ProcessLookupError):  # a `sleep 0.1` of the task, over meanwhile
                os.kill(pid, signal.SIGSTOP)
        time.sleep(ASLEEP_S)  # what is tested is that this time goes by
    finally:
        for pid in asleep:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    time.sleep(1.5)  # so that the daemon has looked
    gate.touch()
    house.run("wait", task, "--timeout", "60")
    detail = house.json("task", "detail", task)
    assert detail["attempts"] == 1
    assert [event["kind"] for event in detail["history"]].count("task.claimed") == 1
