"""A real database per test, and tasks in it at instants that the test chooses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection

from corral.config.sections.work import Tasks as TaskRules
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.store.rows.tasks import TaskRow
from corral.work.tasks import attempts, scheduling, tasks, views
from corral.work.tasks.attempts import CollectedWork, Ending
from corral.work.tasks.wire import read_submissions

T = TypeVar("T")
Row = dict[str, Any]
START = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)


def at(seconds: float) -> datetime:
    """So many seconds after the test's beginning."""
    return START + timedelta(seconds=seconds)


class Board:
    """The queue under test; ``rules`` are its settings."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.rules = TaskRules()
        self.max_size: int | None = None

    def do(self, operation: Callable[[Connection], T]) -> T:
        return self.db.write(operation)

    def submit(self, *items: Row, now: datetime = START) -> list[str]:
        filled = [{"title": "a task", "command": "true", **item} for item in items]
        rows = self.do(
            lambda conn: tasks.submit_batch(conn, read_submissions(filled), now, self.rules, max_size=self.max_size)
        )
        return [row["task_id"] for row in rows]

    def one(self, now: datetime = START, **item: Any) -> str:
        return self.submit(item, now=now)[0]

    def claim(self, now: datetime = START, ageing_s: float = 0) -> TaskRow | None:
        return self.do(
            lambda conn: scheduling.claim(conn, session_id=f"s{now}", lease_s=60, ageing_s=ageing_s, now=now)
        )

    def claimed(self, now: datetime = START, ageing_s: float = 0) -> TaskRow:
        """A task is ready, and claimed."""
        row = self.claim(now, ageing_s)
        assert row is not None
        return row

    def end(self, row: TaskRow, now: datetime = START, **how: Any) -> TaskRow:
        ending = Ending(**{"success": True, **how})
        return self.do(lambda conn: attempts.end(conn, row["task_id"], row["fencing_token"], ending, now, self.rules))

    def fail(self, row: TaskRow, now: datetime = START, *, retryable: bool = True) -> TaskRow:
        return self.end(row, now, success=False, error_code="broken", error_message="It broke.", retryable=retryable)

    def finish_with_work(self, row: TaskRow, merge_id: str = "m1", now: datetime = START) -> TaskRow:
        return self.end(row, now, to_land=CollectedWork(merge_id, f"corral/{merge_id}", "main", "a" * 40, "b" * 40))

    def cancel(self, task_id: str, now: datetime = START) -> TaskRow:
        return self.do(lambda conn: tasks.cancel(conn, task_id, now, self.rules))

    def retry(self, task_id: str, now: datetime = START) -> TaskRow:
        return self.do(lambda conn: tasks.retry(conn, task_id, now, self.rules))

    def detail(self, task_id: str) -> Row:
        return self.db.read(lambda conn: views.detail(conn, task_id))

    def status(self, task_id: str) -> str:
        return str(self.detail(task_id)["status"])

    def kinds(self, task_id: str) -> list[str]:
        return [event["kind"] for event in self.detail(task_id)["history"]]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once; making the schema takes longer than most tests."""
    path = tmp_path_factory.mktemp("schema") / "corral.db"
    open_schema(path)
    return path


@pytest.fixture
def board(tmp_path: Path, empty_database: Path) -> Iterator[Board]:
    path = Path(shutil.copy(empty_database, tmp_path / "corral.db"))
    db = Database(path)
    yield Board(db)
    db.close()
