"""The database: one writer thread whose transactions are shared, and read-only readers.

Invariants:
    * The daemon is the only process that opens the file, and only the writer thread writes or checkpoints it.
      (SQLite before 3.51.3 can corrupt a WAL file when two connections write and checkpoint at once.)
    * Every write runs in ``BEGIN IMMEDIATE`` with ``synchronous=FULL``; it is settled after the commit, so an
      answer that was given is durable. Writes that wait together share one commit (group commit).
    * A write that raises is undone alone, by its savepoint; its neighbours in the same transaction are kept.
    * A file that somebody removes or replaces while it is open (``git clean -fdx``) is written back before the next write:
      until then what was promised lives in the open file only, and a reader that opens the path would see another one.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import QueuePool

from corral.errors import CorralError, DatabaseUnavailable
from corral.store.writes import Bundle, Write

T = TypeVar("T")
Operation = Callable[[Connection], T]

GROUP_LIMIT = 64
"""At most this many operations share one commit, which bounds the wait of the first of them."""

GATHER_S = 0.001
"""Who was answered by a commit is likely to ask again: so long after it the next one waits for as many as asked before."""

CHECKPOINT_EVERY = 500
"""Commits between two passive checkpoints by the writer."""

GLANCE_STEPS = 10_000
"""Steps of SQLite's machine that a statement may take in a glance, or twice as many: a millisecond's worth."""

CACHE_KIB = 16 * 1024
"""Of pages that the writer keeps, if it ever touches so many; a reader's are void with every write."""

IDLE_S = 5.0
"""After so long without a write the log is moved into the database file and shortened; then the writer sleeps."""


_DRIVER = (OperationalError, sqlite3.OperationalError)
"""What goes wrong with a file or a disk: by SQLAlchemy's name, and by the driver's own where it is asked past it."""


class TooLong(Exception):
    """A query that was to be short was not."""


class Database:
    """Opened once by the daemon; :meth:`write`, :meth:`submit` and :meth:`read` are all there is to know.

    Args:
        path: The SQLite file. Its folder exists; the schema is current (see :mod:`corral.store.migrate`).
        readers: How many connections may read at once.

    Raises:
        DatabaseUnavailable: The file cannot be opened or written.
    """

    def __init__(self, path: Path, *, readers: int = 4) -> None:
        self.path = path
        self._own_files = [os.fspath(name) for name in (path, _beside(path)[0])]
        self._readers = readers
        self._bundles: queue.SimpleQueue[Bundle | None] = queue.SimpleQueue()
        self._commits = 0
        self._closed = False
        self._expected, self._gather_until = 0, 0.0
        self._glancing: Connection | None = None
        self._looks = 0
        try:
            self._open()
        except DBAPIError as error:
            raise unavailable(error) from error
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, writes: Sequence[Write[Any]], settled: Callable[[], None]) -> None:
        """Queue writes, which share a commit.

        Args:
            settled: Called in the writer's thread once they are durable or have failed, each by itself. It must not raise.
        """
        if self._closed:
            for write in writes:
                write.error = DatabaseUnavailable("The database is closed.", cause="The daemon is stopping.")
            settled()
        else:
            self._bundles.put(Bundle(writes, settled))

    def write(self, operation: Operation[T]) -> T:
        """Run a write and wait until it is durable.

        Raises:
            DatabaseUnavailable: The transaction could not be committed; nothing was changed.
        """
        write, done = Write(operation), threading.Event()
        self.submit([write], done.set)
        done.wait()
        return write.outcome()

    def read(self, operation: Operation[T]) -> T:
        """Run a query on a read-only connection, on a consistent snapshot, in the caller's thread."""
        try:
            engine = self._reader_engine
            with engine.connect() as conn:
                with conn.begin():
                    result = operation(conn)
                if engine is not self._reader_engine:
                    conn.invalidate()  # the file was put back meanwhile: nobody takes this connection out of its pool again
                return result
        except _DRIVER as error:
            raise unavailable(error) from error

    def glance(self, operation: Operation[T]) -> T:
        """Run a query that is short, as :meth:`read` does, always in the same thread; one that is not is broken off.

        Raises:
            TooLong: It took more than a statement that finds little by an index; nothing came of it.
        """
        try:
            if self._glancing is None or self._glancing.engine is not self._reader_engine:
                self._glancing = self._bounded()
            self._looks = 0
            with self._glancing.begin():
                return operation(self._glancing)
        except (*_DRIVER, DatabaseUnavailable) as error:
            self._no_glancing()
            if self._looks > 1:
                raise TooLong from error
            raise _named(error) from error

    def _bounded(self) -> Connection:
        """A connection of its own, since to fetch one from the pool takes as long as a short query."""

        def tired() -> bool:
            self._looks += (
                1  # a statement's steps are counted on from when it was used before: the first look means nothing
            )
            return self._looks > 1

        self._no_glancing()
        conn = self._reader_engine.connect()
        raw: Any = conn.connection.dbapi_connection
        raw.set_progress_handler(tired, GLANCE_STEPS)
        return conn

    def _no_glancing(self) -> None:
        if self._glancing is not None:
            self._glancing.invalidate()
            self._glancing.close()
            self._glancing = None

    @property
    def lost(self) -> bool:
        """Whether the file at the path is not the one that was opened any more; the next write puts it back."""
        return _files(self._own_files) != self._opened

    def close(self) -> None:
        """Finish what is queued, then close: readers first, so that the writer's close is the last one."""
        if self._closed:
            return
        self._closed = True
        self._bundles.put(None)
        self._thread.join()
        self._no_glancing()
        self._reader_engine.dispose()
        self._writer.close()
        self._writer_engine.dispose()

    def _open(self) -> None:
        self._writer_engine = _engine(self.path, read_only=False, size=1)
        self._reader_engine = _engine(self.path, read_only=True, size=self._readers)
        self._writer = self._writer_engine.connect()
        _plain(self._writer, "SELECT 1 FROM sqlite_master")  # the log exists from the first query on
        self._writer.rollback()
        self._opened = _files(self._own_files)

    # -- the writer's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            writes = [write for bundle in batch for write in bundle.writes if not write.unwanted]
            if writes:
                self._transaction(writes)
            for bundle in batch:
                bundle.settled()
            if self._commits >= CHECKPOINT_EVERY:
                self._checkpoint("PASSIVE")
            self._expected = min(len(writes) + self._bundles.qsize(), GROUP_LIMIT)
            self._gather_until = time.monotonic() + GATHER_S

    def _next_batch(self) -> tuple[list[Bundle], bool]:
        """Wait for a bundle, take what else is there or comes at once; the second value says that none will follow."""
        try:
            bundle = self._bundles.get(timeout=IDLE_S if self._commits else None)
        except queue.Empty:
            self._checkpoint("TRUNCATE")
            return [], False
        batch: list[Bundle] = []
        writes = 0
        while bundle is not None:
            batch.append(bundle)
            writes += len(bundle.writes)
            if writes >= GROUP_LIMIT:
                return batch, False
            patience_s = self._gather_until - time.monotonic() if writes < self._expected else 0.0
            try:
                bundle = self._bundles.get(timeout=patience_s) if patience_s > 0 else self._bundles.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _transaction(self, batch: list[Write[Any]]) -> None:
        try:
            if self.lost:
                self._write_back()
            conn = self._writer
            with conn.begin():
                for write in batch:
                    self._one(conn, write, alone=len(batch) == 1)
        except BaseException as error:  # noqa: BLE001 - the writer survives everything; each waiter is told
            failure = error if isinstance(error, CorralError) else unavailable(error)
            for write in batch:
                write.error = write.error or failure
            return
        self._commits += 1

    def _write_back(self) -> None:
        """Make the file anew from the one that is open and nameless now; a foreign one at its place is kept aside."""
        raw: Any = self._writer.connection.dbapi_connection
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_name(f"{self.path.name}.next")
        aside.unlink(missing_ok=True)
        aside.touch(mode=0o600)
        with contextlib.closing(sqlite3.connect(aside)) as copy:
            raw.backup(copy)
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        self._writer.rollback()
        for name in (self.path, *_beside(self.path)):
            if name.is_symlink() or name.exists():
                name.replace(name.with_name(f"{name.name}.replaced"))
        aside.replace(self.path)
        # SQLite leaves the log at the path alone when a connection closes whose file is no longer there.
        old, writing, reading = self._writer, self._writer_engine, self._reader_engine
        self._open()
        old.close()
        writing.dispose()
        reading.dispose()

    @staticmethod
    def _one(conn: Connection, write: Write[Any], *, alone: bool) -> None:
        raw: Any = conn.connection.dbapi_connection
        if alone:
            try:
                write.run(conn)
            except BaseException as error:
                write.error = _named(error)
                raise
            return
        raw.execute("SAVEPOINT one")
        try:
            write.run(conn)
        except BaseException as error:  # noqa: BLE001 - given to the one who asked, after the rollback of his part
            write.error = _named(error)
            raw.execute("ROLLBACK TO SAVEPOINT one")
        raw.execute("RELEASE SAVEPOINT one")

    def _checkpoint(self, mode: str) -> None:
        """Move the write-ahead log into the database file; ``TRUNCATE`` shortens it too, and belongs to idle moments."""
        self._commits = 0
        raw = self._writer.connection.dbapi_connection
        assert raw is not None
        # A checkpoint that a reader or a full disk prevents has lost nothing: the log keeps it, and the next one tries again.
        with contextlib.suppress(sqlite3.Error):
            raw.cursor().execute(f"PRAGMA wal_checkpoint({mode})").close()
        self._writer.rollback()


def _named(error: BaseException) -> BaseException:
    return unavailable(error) if isinstance(error, _DRIVER) else error


def unavailable(error: BaseException) -> DatabaseUnavailable:
    """Name a driver's error: full disk, read-only file, damaged file, or simply not to be had."""
    text = str(getattr(error, "orig", None) or error)
    hints = {
        "full": ("The disk is full.", "Free some space and try again; nothing was lost."),
        "readonly": (
            "The database file or its folder is read-only.",
            "Make `.corral` writable and try again.",
        ),
        "unable to open": ("The database file cannot be opened.", "Check the permissions of `.corral`."),
        "malformed": (
            "The database file is damaged.",
            "Run `corral doctor`; keep the file, do not delete it.",
        ),
        "not a database": (
            "The file is not a database.",
            "Run `corral doctor`; keep the file, do not delete it.",
        ),
        "disk I/O": ("The disk reported an error.", "Check the disk's space and health, then try again."),
    }
    for marker, (cause, remedy) in hints.items():
        if marker in text:
            return DatabaseUnavailable("The database is unavailable.", cause=f"{cause} ({text})", remedy=remedy)
    return DatabaseUnavailable("The database is unavailable.", cause=text)


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]


def _files(names: Sequence[str]) -> list[tuple[int, int] | None]:
    """Which files these are, asked before every commit: device and inode, None where there is none."""
    found: list[tuple[int, int] | None] = []
    for name in names:
        try:
            status = os.lstat(name)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino))
    return found


def _engine(path: Path, *, read_only: bool, size: int) -> Engine:
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"  # a file that is gone is not made anew, empty, by whoever reads

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=5, isolation_level=None)

    # Nobody waits for a connection: there are no more of them than threads that read.
    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=size, max_overflow=-1)

    @event.listens_for(engine, "connect")
    def _on_connect(dbapi_connection: Any, _record: Any) -> None:
        try:
            cursor = dbapi_connection.cursor()
            if not read_only:
                cursor.execute("PRAGMA journal_mode=WAL")
                cursor.execute(f"PRAGMA cache_size={-CACHE_KIB}")
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.execute("PRAGMA foreign_keys=ON")
            cursor.execute("PRAGMA wal_autocheckpoint=0")
            cursor.execute("PRAGMA temp_store=MEMORY")  # what a savepoint may have to undo
            if read_only:
                cursor.execute("PRAGMA query_only=ON")
            cursor.close()
        except sqlite3.Error:
            dbapi_connection.close()
            raise

    @event.listens_for(engine, "begin")
    def _on_begin(conn: Connection) -> None:
        _plain(conn, "BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _plain(conn: Connection, statement: str) -> None:
    """Run a statement without parameters or rows past SQLAlchemy, whose part in it takes many times as long."""
    raw = conn.connection.dbapi_connection
    assert raw is not None
    try:
        raw.cursor().execute(statement)
    except sqlite3.OperationalError as error:
        raise unavailable(error) from error
