"""The daemon's log holds what happened: a line for each event, through the real daemon."""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from corral.observe.events import log
from corral.observe.events.log import PAGE
from corral.store.rows.records import EventRow
from tests.support.coordinated import Coordinated, denied, eventually

Line = dict[str, Any]
Lines = list[Line]
SHAPE = ["timestamp", "level", "component", "event", "message"]
FAILS_ONCE = "tasks: {retry_initial_s: 0.1, retry_max_s: 0.2}\n"


def lines(house: Coordinated) -> Lines:
    file = house.root / ".corral" / "logs" / "corral.log"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def of(house: Coordinated, event: str) -> Lines:
    return [line for line in lines(house) if line["event"] == event]


def caught_up(house: Coordinated) -> Lines:
    """The lines, once the newest event that `corral status` shows has its own."""
    newest = house.ask("GET", "/status")["recent"][0]["event_id"]
    eventually(lambda: any(line.get("event_id", 0) >= newest for line in lines(house)))
    return lines(house)


def recorded(house: Coordinated, level: int) -> list[int]:
    """The ids of the events in the database of a stopped daemon, of this level and above."""
    with closing(sqlite3.connect(house.root / ".corral" / "corral.db")) as conn:
        rows = conn.execute("SELECT event_id, kind FROM events ORDER BY event_id").fetchall()
    return [event_id for event_id, kind in rows if log.level_of(_event(event_id, kind)) >= level]


def _event(event_id: int, kind: str) -> EventRow:
    return {
        "event_id": event_id, "at": "", "kind": kind, "data": {}, "task_id": None, "session_id": None, "merge_id": None
    }  # fmt: skip


def a_day(house: Coordinated) -> dict[str, str]:
    """What happens in a day; returns the ids of its tasks."""
    ids = {"landed": house.submit("lands", "echo hi > landed.txt && git add -A && git commit -qm made")}
    house.run("wait", ids["landed"])
    ids["dead"] = house.submit("dies", "echo no >&2; exit 3", "--retries", "1")
    house.run("wait", ids["dead"], check=False)
    ids["red"] = house.submit("is red", "echo 1 > red && git add -A && git commit -qm red")
    house.run("wait", ids["red"], check=False)
    for session in ("one", "two"):
        house.hook("SessionStart", session, source="startup")
    house.edit("one", "src/a.py")
    assert denied(house.edit("two", "src/a.py")) is not None
    house.ask("POST", "/locks/acquire", {"session_id": "two", "paths": ["docs/x.md"], "exclusive": True})
    house.ask("POST", "/locks/release", {"session_id": "two", "paths": ["docs/x.md"]})
    house.hook("SessionEnd", "one", reason="other")
    house.configure("supervisor: {max_agents: 3}\n")
    eventually(lambda: of(house, "config_changed"))
    return ids


@pytest.mark.req("FR-MONITOR-001", "FR-QUEUE-004")
def test_what_happened_is_in_the_log(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(verify=("test $(ls | wc -l) -lt 4",), config=FAILS_ONCE)
    ids = a_day(house)
    written_lines = caught_up(house)
    assert all(list(line)[:5] == SHAPE for line in written_lines)
    assert all(datetime.strptime(line["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ") for line in written_lines)

    def about(event: str, task: str) -> Lines:
        return [line for line in written_lines if line["event"] == event and line.get("task_id") == ids[task]]

    for task, events in {
        "landed": ("task_submitted", "task_claimed", "task_started", "task_completed", "merge_queued", "merge_landed"),
        "dead": ("task_submitted", "task_claimed", "task_retried", "task_dead"),
        "red": ("task_submitted", "task_completed", "merge_queued", "merge_failed"),
    }.items():
        for event in events:
            assert about(event, task), f"{event} of {task} is not in the log"
    assert [line["data"]["attempt"] for line in about("task_claimed", "dead")] == [1, 2]
    (retried,) = about("task_retried", "dead")
    assert (retried["level"], retried["component"]) == ("WARNING", "queue")
    assert "3" in retried["data"]["error_message"]
    assert retried["data"]["error_message"] in retried["message"]
    assert about("task_dead", "dead")[0]["level"] == "ERROR"
    assert about("merge_failed", "red")[0]["message"].startswith("Merge ")
    assert about("merge_failed", "red")[0]["data"]["reason"] in about("merge_failed", "red")[0]["message"]

    def by(event: str, session: str) -> Line:
        return next(line for line in written_lines if line["event"] == event and line.get("session_id") == session)

    assert by("session_started", "one")["component"] == "sessions"
    assert by("session_ended", "one")["data"]["reason"] == "other"
    name = by("session_started", "one")["data"]["agent_name"]
    assert by("session_ended", "one")["message"] == f"Session {name} ended: other"
    assert by("lock_acquired", "one")["data"]["paths"] == ["src/a.py"]
    assert by("lock_released", "two")["message"] == "Lock docs/x.md released."
    assert "src/a.py" in by("edit_denied", "two")["message"]
    (changed,) = (line for line in written_lines if line["event"] == "config_changed")
    assert changed["changes"] == {"supervisor.max_agents": 3}
    house.stop()
    written = [line["event_id"] for line in lines(house) if "event_id" in line]
    assert written == recorded(house, logging.INFO), "each event has one line, in the order of the record"


@pytest.mark.req("FR-MONITOR-001")
def test_the_level_decides_and_no_secret_is_written(
    coordinate: Callable[..., Coordinated], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-of-the-environment")
    shaped = "sk-ant-api03-canary0123456789"
    house = coordinate(config="supervisor: {max_agents: 0}\nlogs: {level: WARNING}\n")
    house.hook("SessionStart", "one", source="startup")
    first = house.submit("first", "true")
    house.run("task", "cancel", first, "--reason", f"{shaped} canary-of-the-environment")
    house.edit("two", "shared.txt")
    assert denied(house.edit("one", "shared.txt"))
    eventually(lambda: of(house, "edit_denied"))  # so that what came before it has been read, at level WARNING
    house.configure("logs: {level: DEBUG}\n")

    def is_debug() -> bool:
        house.hook("UserPromptSubmit", "one", prompt=f"say {time.monotonic()}")
        return any(line["level"] == "DEBUG" for line in lines(house))

    eventually(is_debug)
    second = house.submit("second", "true")
    house.run("task", "cancel", second, "--reason", f"{shaped} canary-of-the-environment")
    (cancelled,) = eventually(lambda: [line for line in of(house, "task_cancelled") if line["task_id"] == second])
    assert "[redacted]" in cancelled["message"]
    assert "[redacted]" in cancelled["data"]["reason"]
    assert not [line for line in lines(house) if line.get("task_id") == first], "INFO was written at level WARNING"
    assert "canary" not in (house.root / ".corral" / "logs" / "corral.log").read_text()


@pytest.mark.req("FR-MONITOR-001")
def test_no_event_is_missing_after_the_daemon_was_killed_or_stopped(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}\n")
    many = {"tasks": [{"title": f"t{number}", "command": "true"} for number in range(3 * PAGE)]}

    def logged() -> set[str]:
        return {line["task_id"] for line in of(house, "task_submitted")}

    first = set(house.ask("POST", "/tasks/batch", many)["task_ids"])
    house.kill_daemon()
    assert not first <= logged(), "it was killed too late to prove anything"
    house.ask("GET", "/status")
    eventually(lambda: first <= logged())
    second = set(house.ask("POST", "/tasks/batch", many)["task_ids"])
    house.stop()
    assert second <= logged(), "the daemon stopped with lines to write"


@pytest.mark.req("FR-MONITOR-001")
def test_the_daemon_begins_a_file_a_day_and_keeps_thirty(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    house.stop()
    folder = house.root / ".corral" / "logs"
    now = datetime.now(timezone.utc)
    yesterday, kept, old = (f"corral.log.{(now - timedelta(days=days)).date()}" for days in (1, 29, 31))
    _touch(folder / "corral.log", '{"message": "yesterday"}\n', now - timedelta(days=1))
    for name in (kept, old):
        (folder / name).touch()
    house.ask("GET", "/status")
    assert (folder / yesterday).read_text() == '{"message": "yesterday"}\n'
    assert (folder / kept).exists()
    assert not (folder / old).exists()
    assert of(house, "started")
    assert re.fullmatch(r"0o10?0600", oct((folder / "corral.log").stat().st_mode))


def _touch(file: Path, text: str, at: datetime) -> None:
    file.write_text(text)
    os.utime(file, (at.timestamp(), at.timestamp()))
