"""The files of the database stay as small as what they hold: the write-ahead log under load, the database after deletions."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import pytest
from sqlalchemy import Connection

from corral.core.events import EventKind
from corral.core.instants import iso
from corral.store import events
from corral.store.engine import database as engine
from corral.store.engine import log
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from tests.support.coordinated import rested

pytestmark = pytest.mark.one_python

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)


def _write(db: Database, times: int, rows: int = 1) -> int:
    """Commit so many rows so often without a rest; the largest size of the log."""
    file, largest = db.path.with_name("corral.db-wal"), 0

    def more(conn: Connection) -> None:
        for _ in range(rows):
            events.record(conn, NOW, EventKind.WORK_PAUSED({"reason": "x" * 2000}))

    for _ in range(times):
        db.write(more)
        largest = max(largest, file.stat().st_size)
    return largest


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "corral.db"
    open_schema(path)
    database = Database(path)
    yield database
    database.close()


def test_the_log_stays_small_while_a_writer_never_rests(db: Database) -> None:
    db.read(lambda conn: events.recent(conn, 5))  # its connection stays open, with nothing going on in it
    assert _write(db, 700) < 6 << 20
    assert _write(db, 90, rows=50) < 6 << 20


def test_a_log_that_is_long_at_once_is_cut(db: Database) -> None:
    def much(conn: Connection) -> None:
        for _ in range(6000):
            events.record(conn, iso(NOW), EventKind.WORK_PAUSED({"reason": "x" * 2000}))

    db.write(much)
    db.write(lambda _conn: None)
    assert db.path.with_name("corral.db-wal").stat().st_size < 1 << 20


def test_the_log_stays_bounded_while_a_writer_never_rests_and_readers_overlap(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "WAIT_ABOVE", 4 << 20)
    monkeypatch.setattr(log, "LIMIT", 1 << 20)
    done, largest = threading.Event(), 0

    def linger(conn: Connection) -> None:
        events.recent(conn, 5)
        time.sleep(0.02)

    def read() -> None:
        """Each reader begins before the other one ends, so that there is never a moment without one."""
        while not done.is_set():
            db.read(linger)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        largest = _write(db, 4000)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    # One of several cuts may find a reader that does not finish in time. Without a cut it is 80 MB.
    assert largest < 70 << 20  # without the bound: more than 100, f"{largest >> 20} MB"


def _free_after_deletion(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Size of the file with many events, and after they are gone and the writer has rested."""
    monkeypatch.setattr(log, "CUT_AFTER_S", 0.05)
    database = Database(path)

    def fill(conn: Connection) -> None:
        for _ in range(2000):
            events.record(conn, iso(NOW), EventKind.WORK_PAUSED({"reason": "x" * 2000}))

    try:
        database.write(fill)
        rested(path)
        full = path.stat().st_size
        database.write(lambda conn: conn.exec_driver_sql("DELETE FROM events"))
        while database.write(lambda conn: engine.shrink(conn, 200)):
            pass
        rested(path)
        return full, path.stat().st_size
    finally:
        database.close()


def test_the_file_shrinks_when_rows_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "corral.db"
    open_schema(path)
    full, left = _free_after_deletion(path, monkeypatch)
    assert full > 4 << 20
    assert left < full / 4
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
