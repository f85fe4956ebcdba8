"""Figures of finished work, as JSON, as people read them, and as Prometheus does."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Connection, insert, update

from corral.config.paths import find_project, socket_path
from corral.core.events import Event, EventKind
from corral.core.instants import UTC, iso
from corral.core.states import ReceiptStatus
from corral.observe.metrics import exposition, figures
from corral.observe.metrics import store as metrics
from corral.observe.metrics.api import By, ProcessUse, WorkMetrics
from corral.observe.metrics.latencies import Latencies
from corral.store import events, totals
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.store.schema import attempts, merge_requests, tasks
from corral.work.merges.store import merges, receipts
from corral.work.merges.wire import TARGET_RED
from corral.work.tasks.store import tasks as tasks_rows
from corral.work.tasks.wire import IMPROVEMENT
from tests.support.coordinated import Coordinated
from tests.support.steps import steps

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)


@pytest.fixture
def house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    # The verification takes a time that is not rounded to nothing.
    return coordinate(config="tasks: {max_retries: 0}", verify=("sleep 0.2",))


def families(house: Coordinated) -> dict[tuple[str, tuple[str, ...]], float]:
    house.run("daemon", "start")
    link = HTTPConnection("localhost", timeout=30)
    link.sock = socket.socket(socket.AF_UNIX)
    link.sock.connect(str(socket_path(find_project(house.root))))
    link.request("GET", "/metrics")
    answer = link.getresponse()
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain")
    text = answer.read().decode()
    link.close()
    return {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.req("FR-MONITOR-003")
def test_finished_work_is_counted_in_all_and_by_group_if_it_ended_in_the_span(house: Coordinated) -> None:
    good = [house.submit(f"good {number}", f"echo {number} > {number}.txt") for number in range(2)]
    bad = house.submit("bad", "exit 3")
    house.run("wait", *good, bad, "--timeout", "60", check=False)
    answer = house.json("metrics", "--since", "1h", "--by", "runner")
    assert (answer["tasks"], answer["completed"], answer["failures"], answer["success_rate"]) == (3, 2, 1, 0.6667)
    assert answer["failures_by_code"] == {"command_failed": 1}
    assert answer["duration_s"]["p50"] <= answer["duration_s"]["p95"] <= answer["duration_s"]["max"] < 60
    (group,) = answer["groups"]
    assert (group["name"], group["tasks"], group["tokens"]) == ("command", 3, 0)
    assert sum(day["tasks"] for day in answer["days"]) == 3 and answer["states"] == {"completed": 2, "dead": 1}
    assert answer["landing_s"]["max"] > 0 and answer["verification_s"]["max"] > 0
    assert answer["daemon"]["memory_mb"] > 10
    shown = house.run("metrics", "--by", "agent").stdout
    assert "67 %" in shown and "failures: 1 × command_failed" in shown
    assert (house.json("metrics")["tasks"], house.json("metrics", "--since", "0.001s")["tasks"]) == (3, 0)
    for wrong in ("", "7", "seven days", "-1d", "0h", "1000w"):
        done = house.run("metrics", "--since", wrong, check=False)
        assert done.returncode == 2 and "Write 90m, 12h, 7d or 4w." in done.stderr


@pytest.mark.req("FR-MONITOR-003")
def test_prometheus_reads_the_same(house: Coordinated) -> None:
    house.hook("SessionStart", "c-1", source="startup")
    house.run("wait", house.submit("one", "true"), house.submit("two", "exit 1"), "--timeout", "60", check=False)
    samples = families(house)
    assert samples["corral_tasks_finished_total", ("command", "completed")] == 1
    assert samples["corral_tasks_finished_total", ("command", "failed")] == 1
    assert samples["corral_task_failures_total", ("command_failed",)] == 1
    assert samples["corral_tasks", ("completed",)] == 1
    assert samples["corral_needs_you", ("failed_task",)] == 1 and samples["corral_sessions", ("idle",)] == 1
    assert samples["corral_hook_seconds_count", ()] >= 1
    assert samples["corral_daemon_memory_bytes", ()] > 10e6


def test_a_percentile_is_the_upper_bound_of_its_bucket() -> None:
    hooks = Latencies()
    assert hooks.shown() == {"count": 0, "mean_ms": None, "p50_ms": None, "p95_ms": None}
    for seconds in (0.0004, 0.0009, 0.0009, 30.0):
        hooks.count(seconds)
    shown = hooks.shown()
    assert (shown["count"], shown["p50_ms"], shown["p95_ms"]) == (4, 1.0, None)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    file = tmp_path / "corral.db"
    open_schema(file)
    opened = Database(file)
    yield opened
    opened.close()


def finished(number: int, status: str, *, model: str | None = None, **more: object) -> tuple[dict[str, object], ...]:
    """A task that was claimed after a second, started after two, and ended ``number`` seconds after that; and its attempt."""
    task_id, began = f"t-{number}", NOW - timedelta(hours=1)
    ended = iso(began + timedelta(seconds=2 + number))
    failed = "command_failed" if status == "failed" else None
    task = {
        "task_id": task_id, "task_type": "task", "title": task_id, "status": status, "priority": 5, "runner": "claude",
        "limits": {}, "max_retries": 0, "attempts": 1, "ignore_dependency_failure": False, "fencing_token": 1,
        "current_attempt": 1, "error_code": failed, "created_at": iso(began), "completed_at": ended, **more,
    }  # fmt: skip
    attempt = {
        "task_id": task_id, "number": 1, "session_id": f"s-{number}", "runner": "claude", "model": model,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}, "claimed_at": iso(began + timedelta(seconds=1)),
        "started_at": iso(began + timedelta(seconds=2)), "ended_at": ended, "outcome": status, "error_code": failed,
    }  # fmt: skip
    return task, attempt


@pytest.mark.req("FR-MONITOR-003")
def test_a_span_ends_where_it_is_said_and_improvements_count_as_that_alone(database: Database) -> None:
    rows = [finished(number, "completed", model="small") for number in (1, 2000)]
    rows.append(finished(3, "failed", model="small", template="fix", task_type=IMPROVEMENT))
    collected(database, rows, None)
    until = NOW - timedelta(minutes=45)
    early = database.read(lambda conn: figures.collect(conn, NOW - timedelta(days=1), None, until))
    assert (early["tasks"], early["until_at"]) == (2, iso(until))
    for by, name in (("agent", "claude"), ("runner", "claude"), ("model", "small"), ("template", "")):
        totals_of_groups = database.read(lambda conn, by=by: figures.collect(conn, NOW - timedelta(days=1), by))  # type: ignore[misc]
        assert {group["name"]: group["tasks"] for group in totals_of_groups["groups"]} == {name: 2, IMPROVEMENT: 1}, by


def collected(database: Database, rows: list[tuple[dict[str, object], ...]], by: By | None) -> WorkMetrics:
    database.write(lambda conn: conn.execute(insert(tasks), [task for task, _ in rows]))
    database.write(lambda conn: conn.execute(insert(attempts), [attempt for _, attempt in rows]))
    return database.read(lambda conn: figures.collect(conn, NOW - timedelta(days=1), by))


@pytest.mark.req("FR-MONITOR-003")
def test_durations_tokens_and_cost_are_those_of_the_attempts(database: Database) -> None:
    rows = [finished(number, "completed", model="small") for number in range(1, 20)]
    rows.append(finished(100, "failed", model="large", template="fix"))
    totals_of_model = collected(database, rows, "model")
    assert totals_of_model["duration_s"] == {"mean": 10.0, "p50": 10.0, "p95": 19.0, "max": 19.0}
    assert (totals_of_model["tokens"], totals_of_model["cost_usd"], totals_of_model["queue_wait_s"]["p95"]) == (
        300,
        10.0,
        1.0,
    )
    groups = {group["name"]: group for group in totals_of_model["groups"]}
    assert groups["small"]["success_rate"] == 1.0 and groups["large"]["success_rate"] == 0.0
    assert groups["large"]["duration_s"]["max"] is None and groups["large"]["tokens"] == 15


def test_a_hostile_name_does_not_break_the_scrape(database: Database) -> None:
    rows = [finished(1, "completed", agent='a"\n} 1 \u202e')]
    process: ProcessUse = {"memory_mb": 1, "cpu_s": 1.0}
    nothing: dict[str, int] = {}
    names = ("needs_you", "merges", "sessions", "target_red", "verification_slots_busy")
    present = {**dict.fromkeys(names, nothing), "verification_runs": 0}
    collected(database, rows, "agent")
    database.write(lambda conn: totals.count_use(conn, "t-1", 1))
    counted, recent = database.read(lambda conn: (totals.every(conn), figures.recent(conn)))
    text = exposition.text(counted, recent, present, process, Latencies()).decode()
    agents = [sample.labels["agent"] for family in text_string_to_metric_families(text) for sample in family.samples
             if sample.name == "corral_tokens_total"]  # fmt: skip
    assert agents == ['a"\n} 1 \u202e']


@pytest.mark.req("FR-MONITOR-003")
def test_counters_outlast_a_retry_and_a_restart_and_count_each_end_once(house: Coordinated) -> None:
    gate = house.root.parent / "again"
    task_id = house.carry_out("bad", f"while [ -e {gate} ]; do sleep 0.1; done; exit 3", check=False)
    failures = ("corral_task_failures_total", ("command_failed",))
    before = families(house)
    gate.touch()
    house.run("task", "retry", task_id)
    running = families(house)
    assert (before[failures], running[failures]) == (1, 1)
    assert all(running[key] >= number for key, number in before.items() if key[0].endswith("_total"))
    gate.unlink()
    house.run("wait", task_id, "--timeout", "60", check=False)
    now = families(house)
    assert (now[failures], now["corral_tasks_finished_total", ("command", "failed")]) == (2, 2)
    house.kill_daemon()
    again = families(house)
    assert {key: number for key, number in again.items() if key[0] == failures[0]} == {failures: 2}
    assert all(again[key] >= number for key, number in now.items() if key[0].endswith("_total") and "cpu" not in key[0])


@pytest.mark.req("FR-MONITOR-003")
def test_a_scrape_reads_of_a_finished_task_only_its_entry_in_an_index(database: Database) -> None:
    rows = [finished(number, ("completed", "failed")[number % 2], agent=f"a{number % 20}") for number in range(10_000)]

    def scraped(conn: Connection) -> int:
        return steps(conn, lambda: (totals.every(conn), tasks_rows.counts(conn), metrics.recent(conn, 200)))

    collected(database, rows[:300], None)
    few = database.read(scraped)
    collected(database, rows[300:], None)
    many = database.read(scraped)
    recent = database.read(figures.recent)
    assert recent["states"] == {"completed": 5000, "failed": 5000} and recent["duration_s"]["max"] == 9998
    assert many - few < 9_700 * 25


@pytest.mark.req("FR-MONITOR-003")
def test_a_target_has_the_colour_of_what_was_verified_last(database: Database) -> None:
    def submitted(conn: Connection, branch: str, status: ReceiptStatus) -> str:
        merge_id = merges.submit(
            conn, task_id=None, session_id=None, title="t", priority=5, branch=branch, target="main", base_sha=None,
            head_sha="a" * 40, now=NOW,
        )  # fmt: skip
        receipt = receipts.add(conn, tree="b" * 40, fingerprint="f", status=status, now=NOW)
        its = merge_requests.c.merge_id == merge_id
        conn.execute(update(merge_requests).where(its).values(receipt_id=receipt["receipt_id"]))
        return merge_id

    def play(conn: Connection) -> None:
        good, let = (submitted(conn, str(status), status) for status in (ReceiptStatus.PASSED, ReceiptStatus.BYPASSED))
        red, held = EventKind.MERGE_HELD({"reason": f"{TARGET_RED}: x"}), EventKind.MERGE_HELD({"reason": "approval"})
        landed = EventKind.MERGE_LANDED({"reason": None, "landed_sha": "a" * 40})
        for minute, event in enumerate((landed, held, red, red, landed, landed)):
            events.record(conn, NOW + timedelta(minutes=minute), event, merge_id=good)
        paused, resumed = EventKind.TARGET_PAUSED, EventKind.TARGET_RESUMED
        on_main: list[tuple[Event, str | None]] = [
            (paused({"target": "main", "reason": "a full disk"}), None),
            (resumed({"target": "main"}), None),
            (paused({"target": "main", "reason": "x", "red_sha": "a" * 40}), None),
            (landed, let),
            (resumed({"target": "main", "green_sha": "a" * 40}), None),
        ]
        for minute, (event, merge_id) in enumerate(on_main, 10):
            events.record(conn, NOW + timedelta(minutes=minute), event, merge_id=merge_id)

    database.write(play)
    colours = database.read(lambda conn: figures.collect(conn, NOW - timedelta(hours=1), None))["colours"]
    assert [(change["colour"], change["at"][14:16]) for change in colours] == [
        ("green", "00"),
        ("red", "02"),
        ("green", "04"),
        ("red", "12"),
        ("green", "14"),
    ], "what a person let past its verification is no green"
