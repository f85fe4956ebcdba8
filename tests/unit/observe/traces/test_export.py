"""The job of the traces, step by step, against a real collector in a process of its own, with a clock that the test moves."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from corral.config.model import Settings
from corral.core.events import EventKind as Kind
from corral.core.extras import how_to_add
from corral.core.needs import Need
from corral.observe.traces.export import AT_ONCE, READER, SHOWN_AFTER, TraceExport, pause_s
from corral.store import events
from corral.store.engine.database import Database
from corral.work.tasks.store import tasks
from tests.support.collector import Collector, collector
from tests.support.coordinated import eventually

NOW = datetime(2031, 3, 1, 12, tzinfo=timezone.utc)
TASK = {"task_type": "task", "title": "A", "status": "cancelled", "priority": 5, "limits": {}, "max_retries": 0}
TASK |= {"attempts": 0, "ignore_dependency_failure": False, "fencing_token": 0, "description": None}
AT = "2031-03-01T11:00:00.000Z"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with collector(tmp_path_factory.mktemp("otlp") / "collector") as made:
        yield made


@pytest.fixture
def far(shared: Collector) -> Collector:
    shared.answer("200")
    (shared.folder / "received.jsonl").write_text("")
    return shared


class World:
    """A job with its parts."""

    def __init__(self, db: Database, url: str | None, **telemetry: Any) -> None:
        self.db, self.url, self.now, self.faults = db, url, NOW, dict[str, Need]()
        self.changes = 0
        self.choose(otlp_endpoint="http://127.0.0.1:1", **telemetry)
        self.restart()

    def choose(self, **telemetry: Any) -> None:
        self.settings = Settings.model_validate({"telemetry": telemetry})

    def restart(self) -> None:
        """A job of a new daemon."""
        self.ended = threading.Semaphore(0)
        resource = {"service.name": "corral", "corral.project": "p"}
        self.job = TraceExport(
            self.db, lambda: self.settings, lambda: self.url, resource, self.ended.release, self._changed, self.faults
        )

    def _changed(self) -> None:
        self.changes += 1

    def task(self, task_id: str, at: datetime = NOW) -> None:
        """Record the life of a task that nobody claimed: two spans."""

        def store(conn: Any) -> None:
            tasks.create(conn, {**TASK, "task_id": task_id, "created_at": AT, "completed_at": AT}, [])
            events.record(conn, at, Kind.TASK_SUBMITTED, task_id=task_id)
            events.record(conn, at, Kind.TASK_CANCELLED({"reason": "no", "error_code": None}), task_id=task_id)

        self.db.write(store)

    def try_once(self) -> datetime | None:
        """Begin a request, wait for its end, settle it; returns when the next step is due."""
        self.job.step(self.now)
        assert self.ended.acquire(timeout=30)
        return self.job.step(self.now)

    def position(self) -> int | None:
        return self.db.read(lambda conn: events.position(conn, READER))


def titles(far: Collector) -> list[str]:
    return [span["attributes"]["corral.task.id"] for span in far.spans() if span["name"] == "task"]


def test_what_ended_is_sent_once_and_nothing_from_before_it_was_switched_on(db: Database, far: Collector) -> None:
    world = World(db, f"{far.url}/v1/traces")
    world.task("before")
    assert world.job.step(NOW) is None and world.position() == 2, "it begins with the newest event"
    for number in range(AT_ONCE + 1):
        world.task(f"t{number}")
    world.try_once()
    assert world.ended.acquire(timeout=30)
    world.job.step(NOW)
    assert titles(far) == [f"t{number}" for number in range(AT_ONCE + 1)], "all, once, in their order"
    assert len(far.requests()) == 2 and world.position() == 2 + 2 * (AT_ONCE + 1)
    first = far.requests()[0]
    assert (first["path"], first["scope"]) == ("/v1/traces", "corral")
    assert first["resource"] | {"service.name": "corral", "corral.project": "p"} == first["resource"]
    world.restart()
    assert world.job.step(NOW) is None and len(far.requests()) == 2, "a new daemon sends nothing again"


def test_one_that_fails_is_tried_again_for_ever_with_longer_pauses_and_a_person_is_told(
    db: Database, far: Collector
) -> None:
    world = World(db, f"{far.url}/v1/traces")
    world.job.step(NOW)
    world.task("t")
    for mode, reason in (("503", "it answered 503"), ("302", "it answered 302"), ("400", "it answered 400")):
        far.answer(mode)
        due = world.try_once()
        assert due is not None and world.job.step(world.now) == due, f"{reason}: not before its time"
        assert world.faults == {} and world.position() == 0
        world.now = due
    assert (world.now - NOW).total_seconds() == 0.5 + 1 + 2
    far.answer("429")
    due = world.try_once()
    assert due == world.now + timedelta(seconds=40), "the collector asked for it"
    world.now = due
    far.answer("404")
    world.try_once()
    need = world.faults["traces"]
    assert need.kind == "exports" and "it answered 404" in need.what and world.changes == 1
    assert all(request["path"] == "/v1/traces" for request in far.requests()), "a redirect is not followed"
    assert len(far.requests()) == SHOWN_AFTER, "the exporter's own retries are off"
    far.answer("200")
    world.now += timedelta(seconds=8)
    assert world.try_once() is None
    assert titles(far) == ["t"] and world.faults == {} and world.changes == 2 and world.position() == 2
    assert len({str(request["spans"]) for request in far.requests()}) == 1, "the same spans each time"
    assert [pause_s(n) for n in (1, 2, 5, 10, 11, 5000)] == [0.5, 1, 8, 256, 300, 300]


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_one_that_hangs_keeps_nobody_waiting_and_holds_one_thread(db: Database, far: Collector, how: str) -> None:
    world = World(db, f"{far.url}/v1/traces", otlp_timeout_s=2)
    world.job.step(NOW)
    world.task("t")
    far.answer(how)
    assert world.job.step(NOW) == NOW + timedelta(seconds=3), "the step does not wait"
    eventually(lambda: far.requests())
    due = world.job.step(NOW + timedelta(seconds=3))
    assert due == NOW + timedelta(seconds=3.5)
    if not world.ended.acquire(blocking=False):
        assert world.job.step(due) == due + timedelta(seconds=0.5), "while that one hangs no other is begun"
        assert world.ended.acquire(timeout=30), "and it does not hang for ever"
    assert len(far.requests()) == 1 and world.position() == 0
    far.answer("200")
    world.now = due + timedelta(seconds=5)
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "traces-send"])
    world.try_once()
    assert titles(far) == ["t"]


def test_of_a_redirect_whose_body_has_no_end_nothing_is_read(db: Database, far: Collector) -> None:
    world = World(db, f"{far.url}/v1/traces")
    world.job.step(NOW)
    world.task("t")
    far.answer("flood")
    world.try_once()
    taken = eventually(lambda: (far.folder / "flooded").exists() and (far.folder / "flooded").read_text())
    assert int(taken) < 50 << 20, "what fits into the sockets' buffers"
    far.answer("200")
    world.now += timedelta(seconds=5)
    world.try_once()
    assert titles(far) == ["t"]


def test_nobody_there_and_then_somebody(db: Database, tmp_path: Path) -> None:
    with collector(tmp_path / "own") as far:
        world = World(db, f"{far.url}/v1/traces")
        world.job.step(NOW)
        far.kill()
        world.task("t")
        for _ in range(SHOWN_AFTER):
            world.now = world.try_once() or world.now
        assert world.faults["traces"].what.startswith("Traces do not reach the collector: Connection refused.")
        world.restart()
        far.start()
        world.try_once()
        assert titles(far) == ["t"] and world.faults == {}, "another daemon sends what waited"


def test_switched_off_it_reads_nothing_and_tells_nothing_of_that_time(db: Database, far: Collector) -> None:
    world = World(db, f"{far.url}/v1/traces")
    world.job.step(NOW)
    world.choose(otlp_endpoint=None)
    assert world.job.step(NOW) is None and world.position() is None, "it holds back no deletion of events"
    world.task("while off")
    world.choose(otlp_endpoint="http://127.0.0.1:1")
    world.job.step(NOW)
    world.url = None  # it was approved, and is no more: what happens waits for another approval
    world.task("unapproved")
    assert world.job.step(NOW) is None and far.requests() == []
    world.url = f"{far.url}/v1/traces"
    world.try_once()
    assert titles(far) == ["unapproved"]


def test_what_could_not_be_sent_until_events_are_deleted_is_left_out(db: Database, far: Collector) -> None:
    world = World(db, f"{far.url}/v1/traces")
    world.job.step(NOW)
    world.url = None
    world.task("old")
    world.now = NOW + timedelta(days=31)
    world.task("new", at=world.now)
    world.job.step(world.now)
    assert world.position() == 2
    world.url = f"{far.url}/v1/traces"
    world.try_once()
    assert titles(far) == ["new"]


def test_spans_that_the_collector_rejects_are_logged_and_not_sent_again(
    db: Database, far: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(db, f"{far.url}/v1/traces")
    world.job.step(NOW)
    world.task("t")
    far.answer("reject")
    assert world.try_once() is None and world.position() == 2
    assert "spans_rejected" in caplog.text and "2 spans: too old" in caplog.text


def test_without_the_extra_a_person_is_told_at_once_until_it_is_there(
    db: Database, far: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(db, f"{far.url}/v1/traces")
    world.job.step(NOW)
    world.task("t")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
        assert world.try_once() == NOW + timedelta(seconds=10)
    assert how_to_add("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http") in world.faults["traces"].remedy
    world.now += timedelta(seconds=10)
    world.try_once()
    assert world.faults == {} and titles(far) == ["t"]


def test_the_variables_of_opentelemetry_give_headers_and_compression(
    db: Database, far: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=of-the-user")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    world = World(db, f"{far.url}/v1/traces")
    world.job.step(NOW)
    world.task("t")
    world.try_once()
    (request,) = far.requests()
    assert request["key"] == "of-the-user" and titles(far) == ["t"], (
        "and the address is the approved one, without a proxy"
    )
