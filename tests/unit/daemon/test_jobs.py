"""The runner of the background jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from corral.core.steps import Step
from corral.daemon.jobs import Job

PAUSE_S = 0.05


class Counted:
    """A step that is told apart from the next one."""

    def __init__(self) -> None:
        self.steps = 0
        self.stepped = threading.Condition()

    def __call__(self, now: datetime) -> None:
        with self.stepped:
            self.steps += 1
            self.stepped.notify_all()

    def reach(self, steps: int) -> bool:
        with self.stepped:
            return self.stepped.wait_for(lambda: self.steps >= steps, timeout=10)


@pytest.fixture
def step() -> Counted:
    return Counted()


@pytest.fixture
def job(step: Counted) -> Iterator[Job]:
    made = Job(Step("counted", step, pause_s=PAUSE_S), {})
    made.start()
    yield made
    made.stop()
    assert made.join(10)


def test_many_nudges_are_few_steps_and_the_last_one_is_never_lost(job: Job, step: Counted) -> None:
    assert step.reach(1)
    began = time.monotonic()
    while time.monotonic() < began + 6 * PAUSE_S:
        job.nudge()
        time.sleep(0.0005)
    before = step.steps
    took = time.monotonic() - began
    assert before <= 2 + took / PAUSE_S
    job.nudge()
    assert step.reach(before + 1)


def test_a_job_that_pauses_is_stopped_at_once(step: Counted) -> None:
    job = Job(Step("slow", step, pause_s=60), {})
    job.start()
    assert step.reach(1)
    job.nudge()
    job.stop()
    assert job.join(10)


@pytest.mark.req("D11")
def test_a_clock_that_is_set_back_while_a_step_runs_makes_nobody_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [datetime(2026, 3, 1, 12, tzinfo=timezone.utc)]
    monkeypatch.setattr("corral.daemon.jobs.now", lambda: clock[0])
    stepped = threading.Semaphore(0)

    def step(at: datetime) -> datetime:
        clock[0] -= timedelta(hours=8)
        stepped.release()
        return at + timedelta(seconds=0.05)

    job = Job(Step("jumps", step), {})
    job.start()
    try:
        assert all(stepped.acquire(timeout=5) for _ in range(3))
    finally:
        job.stop()
        assert job.join(10)
