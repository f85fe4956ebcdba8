"""A part that cannot be recovered, or a job that fails, is said and tried again; it stops neither the daemon nor the others."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

import pytest

from corral.core.errors import DatabaseUnavailable, NotAProject
from corral.core.needs import Need
from corral.core.steps import Step
from corral.daemon import jobs
from corral.daemon.jobs import Job
from corral.daemon.recovery import Recovery

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)


def test_what_cannot_be_recovered_is_said_and_tried_again_before_each_step_until_it_is() -> None:
    faults: dict[str, Need] = {}
    broken, calls = [True], []

    def recover(_now: datetime) -> None:
        calls.append("recover")
        if broken[0]:
            raise NotAProject("/x has lost its git directory.")

    recovery = Recovery("landings", "Landings that were begun", recover, faults)
    recovery.run(NOW)
    (need,) = faults.values()
    assert "Landings that were begun could not be recovered: /x has lost its git directory." in need.what
    step = recovery.before(lambda _now: calls.append("step"))
    assert step(NOW + timedelta(seconds=5)) == NOW + timedelta(seconds=5 + jobs.RETRY_S), "it is not left to a nudge"
    assert next(iter(faults.values())).since == need.since
    broken[0] = False
    assert step(NOW) is None
    assert step(NOW) is None
    assert faults == {}
    assert calls == ["recover", "recover", "step", "recover", "step", "step"]


def test_without_a_database_nothing_is_recovered() -> None:
    def recover(_now: datetime) -> None:
        raise DatabaseUnavailable("The database cannot be written.")

    with pytest.raises(DatabaseUnavailable):
        Recovery("landings", "Landings", recover, {}).run(NOW)


def test_a_job_that_fails_step_after_step_stands_under_what_needs_a_person_until_it_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "RETRY_S", 0.0)
    faults: dict[str, Need] = {}
    seen: list[list[str]] = []
    over = threading.Event()

    def step(_now: datetime) -> datetime | None:
        seen.append([need.what for need in faults.values()])
        if len(seen) <= 3:
            raise ValueError("boom")
        if len(seen) == 4:
            return NOW
        over.set()
        return None

    job = Job(Step("landing", step), faults)
    job.start()
    assert over.wait(10)
    job.stop()
    assert job.join(10)
    assert seen[0] == seen[1] == [], "one failure is no reason to call anybody"
    assert len(seen[2]) == 1 and "landing" in seen[2][0] and "boom" in seen[2][0]
    assert seen[4] == []
