"""The writer: durable, grouped, undone alone, never dead."""

from __future__ import annotations

import sqlite3
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select, text, update

from corral.coordination.sessions import registry
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions
from corral.core.errors import DatabaseDamaged, DatabaseUnavailable, InvalidInput
from corral.core.instants import UTC, iso
from corral.store import schema
from corral.store.engine import database as engine
from corral.store.engine.database import Database
from corral.store.engine.writes import Write
from corral.store.migrate import open_schema
from corral.store.protocol import TooLong

THEN = datetime(2026, 1, 1, tzinfo=UTC)


def _insert(conn: Connection, kind: str = "k") -> None:
    conn.execute(insert(schema.events).values(at="2026-01-01T00:00:00.000Z", kind=kind, data={}))


def _count(db: Database) -> int:
    return int(db.read(lambda conn: conn.execute(select(func.count()).select_from(schema.events)).scalar()) or 0)


def _broken(conn: Connection) -> None:
    _insert(conn, "half")
    raise InvalidInput("no")


def _traced(db: Database) -> list[str]:
    """What the writer sends to SQLite from now on."""
    statements: list[str] = []

    def trace(conn: Connection) -> None:
        raw: Any = conn.connection.dbapi_connection
        raw.set_trace_callback(statements.append)

    db.write(trace)
    return statements


def test_a_change_of_who_is_a_sessions_client_is_known_before_it_is_settled(db: Database) -> None:
    numbers, pid = [db.clients_version], 4711
    for operation in (
        lambda conn: registry.register(conn, Arrival(session_id="s-1", client_pid=pid), THEN),
        lambda conn: sessions.touch(conn, "s-1", iso(THEN)),
        lambda conn: conn.execute(update(schema.agent_sessions).values(client_pid=None)),
        lambda conn: sessions.end(conn, "s-1", "ended", iso(THEN)),
    ):
        settled = threading.Event()

        def note(settled: threading.Event = settled) -> None:
            numbers.append(db.clients_version)
            settled.set()

        db.submit([Write(operation)], note)
        assert settled.wait(10)
    assert numbers == [0, 1, 1, 2, 3]


def test_writes_that_wait_together_are_all_stored_and_a_failed_one_is_undone_alone(db: Database) -> None:
    writes = [Write(_broken if number % 3 == 0 else _insert) for number in range(300)]
    settled = [threading.Event() for _ in range(30)]
    for number, event in enumerate(settled):
        db.submit(writes[10 * number : 10 * number + 10], event.set)
    assert all(event.wait(30) for event in settled)
    assert [type(write.error) for write in writes[:4]] == [InvalidInput, type(None), type(None), InvalidInput]
    assert _count(db) == 200
    assert not db.read(lambda conn: conn.execute(select(schema.events).where(schema.events.c.kind == "half")).all())


def test_a_write_whose_waiter_went_away_is_dropped_and_the_writer_goes_on(db: Database) -> None:
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def wait(conn: Connection) -> None:
        begun.set()
        go_on.wait(30)

    db.submit([Write(wait)], lambda: None)
    begun.wait(30)
    writes = [Write(_insert) for _ in range(4)]
    db.submit(writes, over.set)
    writes[1].unwanted = True
    go_on.set()
    assert over.wait(30)
    db.write(_insert)
    assert _count(db) == 4


def test_who_was_answered_by_one_commit_is_waited_for_by_the_next_and_one_alone_waits_for_nobody(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "GATHER_S", 60.0)
    statements = _traced(db)
    for _ in range(3):
        db.write(_insert)
    together, sooner, later = (threading.Event() for _ in range(3))
    db.submit([Write(_insert), Write(_insert)], together.set)
    assert together.wait(30)
    db.submit([Write(_insert)], sooner.set)
    assert not sooner.wait(0.1)
    db.submit([Write(_insert)], later.set)
    assert sooner.wait(30) and later.wait(30)
    assert (_count(db), statements.count("COMMIT")) == (7, 6)  # the first is that of the tracing


def test_an_answer_means_that_another_process_would_see_it(db: Database, tmp_path: Path) -> None:
    db.write(_insert)
    other = sqlite3.connect(f"file:{tmp_path / 'corral.db'}?mode=ro", uri=True)
    assert other.execute("select count(*) from events").fetchone() == (1,)
    other.close()


def test_a_reader_cannot_write(db: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        db.read(_insert)


def test_every_write_transaction_begins_immediate_and_full(db: Database) -> None:
    statements = _traced(db)
    db.write(_insert)
    assert "BEGIN IMMEDIATE" in statements
    assert not [text for text in statements if text.strip() == "BEGIN"]
    assert db.write(lambda conn: conn.exec_driver_sql("PRAGMA synchronous").scalar()) == 2


def test_a_closed_database_says_so(tmp_path: Path) -> None:
    open_schema(tmp_path / "x.db")
    database = Database(tmp_path / "x.db")
    database.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        database.write(_insert)
    assert not (tmp_path / "x.db-wal").exists()


def test_a_damaged_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "corral.db"
    path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(DatabaseUnavailable) as caught:
        open_schema(path)
    assert "corral daemon stop" in caught.value.remedy and f"find {tmp_path} -maxdepth 1" in caught.value.remedy
    assert path.read_bytes() == b"this is not a database" * 100


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corral.db"
    open_schema(path)
    with sqlite3.connect(path) as conn:
        conn.execute("update alembic_version set version_num = '9999'")
    conn.close()
    with pytest.raises(DatabaseUnavailable, match="newer"):
        open_schema(path)


@pytest.mark.parametrize(
    "values",
    [
        {"status": "disconnected"},
        {"status": "active", "ended_at": "2026-01-01T00:00:00.000Z"},
        {"status": "asleep"},
    ],
)
def test_the_schema_refuses_impossible_rows(db: Database, values: dict[str, str]) -> None:
    row = {
        "session_id": "s",
        "agent_name": "n",
        "agent_type": "claude",
        "capabilities": [],
        "started_at": "2026-01-01T00:00:00.000Z",
        "last_heartbeat": "2026-01-01T00:00:00.000Z",
        **values,
    }
    from sqlalchemy.exc import IntegrityError

    with pytest.raises(IntegrityError):
        db.write(lambda conn: conn.execute(insert(schema.agent_sessions).values(**row)) and None)


@pytest.mark.parametrize("taken", [("corral.db", "corral.db-wal", "corral.db-shm"), ("corral.db",), ("corral.db-wal",)])
def test_a_file_that_somebody_removes_is_back_with_the_next_write_and_nothing_is_lost(
    db: Database, tmp_path: Path, taken: tuple[str, ...]
) -> None:
    db.write(_insert)
    reading, done = threading.Event(), threading.Event()

    def read(conn: Connection) -> int:
        first = conn.execute(select(func.count()).select_from(schema.events)).scalar()
        reading.set()
        assert done.wait(30)
        return int(first or 0)

    reader = threading.Thread(target=db.read, args=(read,))
    reader.start()
    assert reading.wait(30)
    for name in taken:
        (tmp_path / name).unlink()
    was_lost = db.lost
    db.write(_insert)
    assert was_lost and not db.lost
    done.set()
    reader.join()  # a connection to the file that is gone closes, and takes nothing of the new one with it
    db.write(_insert)
    assert not db.lost
    assert _count(db) == 3
    db.close()
    again = Database(tmp_path / "corral.db")
    assert _count(again) == 3
    again.close()


@pytest.mark.parametrize("look", ["read", "read_inline"])
@pytest.mark.parametrize("instead", ["nothing", "another database"])
def test_a_reader_sees_neither_an_empty_nor_a_foreign_database_where_the_file_is_gone(
    db: Database, tmp_path: Path, instead: str, look: str
) -> None:
    db.write(_insert)
    (tmp_path / "corral.db").unlink()
    if instead == "another database":
        open_schema(tmp_path / "other.db")
        (tmp_path / "other.db").replace(tmp_path / "corral.db")
    count = select(func.count()).select_from(schema.events)
    assert getattr(db, look)(lambda conn: conn.execute(count).scalar()) == 1
    assert not db.lost


def test_nothing_is_put_back_where_the_repository_is_gone(tmp_path: Path) -> None:
    home = tmp_path / "repo" / ".corral"
    home.mkdir(parents=True)
    open_schema(home / "corral.db")
    db = Database(home / "corral.db", has_left=lambda: not home.is_dir())
    db.write(_insert)
    (tmp_path / "repo").rename(tmp_path / "moved")
    for use in (lambda: db.write(_insert), lambda: _count(db)):
        with pytest.raises(DatabaseUnavailable, match="moved or deleted"):
            use()
    db.close()
    assert not (tmp_path / "repo").exists()
    moved = Database(tmp_path / "moved/.corral/corral.db")
    assert _count(moved) == 1
    moved.close()


def test_what_stands_in_the_place_of_the_file_is_kept_aside(db: Database, tmp_path: Path) -> None:
    db.write(_insert)
    (tmp_path / "theirs").write_text("not a database")
    (tmp_path / "theirs").replace(tmp_path / "corral.db")
    db.write(_insert)
    assert (tmp_path / "corral.db.replaced").read_text() == "not a database"
    assert _count(db) == 2


@pytest.mark.parametrize("gone", ["corral.db", "corral.db-wal", "corral.db-shm"])
def test_of_a_file_that_is_half_deleted_nothing_is_kept_aside(db: Database, tmp_path: Path, gone: str) -> None:
    db.write(_insert)
    (tmp_path / gone).unlink()
    db.write(_insert)
    assert _count(db) == 2 and not [*tmp_path.glob("*.replaced")]


def test_a_folder_that_cannot_be_written_to_takes_no_promise_and_heals(db: Database, tmp_path: Path) -> None:
    db.write(_insert)
    (tmp_path / "corral.db").unlink()
    (tmp_path / "corral.db.next").mkdir()
    with pytest.raises(DatabaseUnavailable):
        db.write(_insert)
    (tmp_path / "corral.db.next").rmdir()
    db.write(_insert)
    assert _count(db) == 2


def test_a_glance_answers_what_is_short_and_breaks_off_what_is_not(db: Database) -> None:
    db.write(_insert)
    assert db.read_inline(lambda conn: conn.execute(select(schema.events.c.kind)).scalar()) == "k"
    far = text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90000) SELECT count(*) FROM n")
    with pytest.raises(TooLong):
        db.read_inline(lambda conn: conn.execute(far).scalar())
    assert db.read(lambda conn: conn.execute(far).scalar()) == 90000, "the connection reads on, as long as it takes"


def test_a_glance_at_what_is_not_there_is_the_databases_error(db: Database) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        db.read_inline(lambda conn: conn.execute(text("SELECT 1 FROM nowhere")))
    assert "no such table" in caught.value.cause


@pytest.mark.parametrize(
    "statement", ["SELECT shape FROM events", "INSERT INTO events (shape) VALUES (1)", "SELECT 1 FROM nowhere"]
)
def test_tables_of_another_shape_are_told_as_what_they_are(db: Database, statement: str) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        db.write(lambda conn: conn.execute(text(statement)))
    assert "install that one again" in caught.value.remedy and "corral daemon stop" in caught.value.remedy
    assert "space" not in caught.value.remedy and "no" in caught.value.cause


def test_a_glance_sees_the_file_that_was_put_back(db: Database) -> None:
    kinds = select(schema.events.c.kind)
    db.write(_insert)
    assert db.read_inline(lambda conn: conn.execute(kinds).scalars().all()) == ["k"]
    db.path.unlink()
    db.write(lambda conn: _insert(conn, "after"))
    assert db.read_inline(lambda conn: conn.execute(kinds).scalars().all()) == ["k", "after"]


@pytest.mark.req("D8")
def test_once_damage_is_found_nothing_is_answered_any_more_even_where_it_could_be(db: Database) -> None:
    db.write(_insert)
    damage = db.record_damage("row 3 missing from index")
    for ask in (db.read, db.read_inline, db.write):
        with pytest.raises(DatabaseDamaged) as refused:
            ask(lambda conn: conn.execute(text("SELECT 1")).scalar())
        assert refused.value is damage
