"""The job that writes events to the log: each once, a bounded number at a time, less when a day has too many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from corral.core import logs
from corral.core.events import Event, EventKind
from corral.observe.events import log as event_log
from corral.observe.events.log import EventLog
from corral.store import events, migrate
from corral.store.engine.database import Database

NOW = datetime(2031, 3, 1, 12, tzinfo=timezone.utc)
RELEASED = EventKind.LOCK_RELEASED({"paths": ["src/a.py"]})


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    migrate.open_schema(tmp_path / "corral.db")
    opened = Database(tmp_path / "corral.db")
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    logs.configure(tmp_path / "logs" / "corral.log", "INFO", 30, stderr=False)
    yield tmp_path / "logs" / "corral.log"
    logs.close()


def record(db: Database, count: int, event: Event = RELEASED) -> None:
    def write(conn: Any) -> None:
        for _ in range(count):
            events.record(conn, NOW, event)

    db.write(write)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_step_writes_a_page_and_says_whether_there_is_more(db: Database, file: Path) -> None:
    record(db, event_log.PAGE + 1)
    step = EventLog(db, file).step
    assert step(NOW) == NOW
    assert len(lines(file)) == event_log.PAGE
    assert step(NOW) is None
    assert [line["event_id"] for line in lines(file)] == list(range(1, event_log.PAGE + 2))
    assert step(NOW) is None
    assert len(lines(file)) == event_log.PAGE + 1


def test_the_next_daemon_goes_on_where_the_last_one_stopped(db: Database, file: Path) -> None:
    record(db, 3)
    EventLog(db, file).step(NOW)
    record(db, 2)
    EventLog(db, file).step(NOW)
    assert [line["event_id"] for line in lines(file)] == [1, 2, 3, 4, 5]


def test_what_an_older_version_recorded_is_not_written_whole(db: Database, file: Path) -> None:
    record(db, event_log.BACKLOG + 50)
    EventLog(db, file).finish(NOW, pages=100)
    assert [line["event_id"] for line in lines(file)] == list(range(51, event_log.BACKLOG + 51))


def test_a_day_with_too_much_keeps_what_is_grave_and_says_so_once(
    db: Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = EventLog(db, file).step
    record(db, 1)
    step(NOW)
    monkeypatch.setattr(event_log, "MOST_OF_A_DAY", file.stat().st_size - 1)
    for _round in range(2):
        record(db, 1)
        record(db, 1, EventKind.TASK_DEAD({"error_code": "x"}))
        step(NOW)
    assert [line["event"] for line in lines(file)] == ["lock_released", "log_full", "task_dead", "task_dead"]
