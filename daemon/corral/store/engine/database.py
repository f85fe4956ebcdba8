"""The database: one writer thread whose transactions are shared, and read-only readers.

Invariants:
    * The daemon is the only process that opens the file, and only the writer thread writes or checkpoints it.
      (SQLite before 3.51.3 can corrupt a WAL file when two connections write and checkpoint at once.)
    * Every write runs in ``BEGIN IMMEDIATE`` with ``synchronous=FULL``; it is settled after the commit, so an
      answer that was given is durable. Writes that wait together share one commit (group commit).
    * A write that raises is undone alone, by its savepoint; its neighbours in the same transaction are kept.
    * A file that somebody removes or replaces while it is open (``git clean -fdx``) is written back before the next write:
      until then what was promised lives in the open file only, and a reader that opens the path would see another one.
    * A file that is damaged while it is open answers nothing any more, from the first error of that kind on: what can still
      be read of it may be wrong, and a write that it acknowledged may be lost.
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

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from corral.core.errors import CorralError, DatabaseDamaged, DatabaseUnavailable
from corral.store.engine.connections import (
    BUSY_MS,
    DRIVER_ERRORS,
    beside,
    damaged,
    inodes,
    is_unavailable,
    open_engine,
    run_plain,
    unavailable,
)
from corral.store.engine.log import WriteAheadLog
from corral.store.engine.writes import Bundle, Write
from corral.store.protocol import TooLong

T = TypeVar("T")
Operation = Callable[[Connection], T]

GROUP_LIMIT = 64
"""At most this many operations share one commit, which bounds the wait of the first of them."""

GATHER_S = 0.001
"""Clients whose writes one commit answered are likely to write again: the next commit waits so long for as many of them."""

GLANCE_STEPS = 10_000
"""Steps of SQLite's machine that a statement may take in a glance, or twice as many: a millisecond's worth."""

INCREMENTAL = 2
"""SQLite's number for databases that shrink in steps."""


class Database:
    """Opened once by the daemon; :meth:`write`, :meth:`submit` and :meth:`read` are all there is to know.

    Args:
        path: The SQLite file. Its folder exists; the schema is current (see :mod:`corral.store.migrate`).
        readers: How many connections may read at once.
        has_left: Whether the repository is not at its place any more: then a lost file is not put back, and nothing is written.

    Raises:
        DatabaseUnavailable: The file cannot be opened or written.
    """

    def __init__(self, path: Path, *, readers: int = 4, has_left: Callable[[], bool] = lambda: False) -> None:
        self.path = path
        self._has_left = has_left
        self._own_files = [os.fspath(name) for name in (path, beside(path)[0])]
        self._readers = readers
        self._bundles: queue.SimpleQueue[Bundle | None] = queue.SimpleQueue()
        self._log = WriteAheadLog(self._own_files[1], self._checkpoint)
        self._closed = False
        self._expected, self._gather_until = 0, 0.0
        self._glancing: Connection | None = None
        self._looks = 0
        self.damage: DatabaseDamaged | None = None
        """The error that every read and write raises since the file was found to be damaged."""
        self.on_damage: Callable[[DatabaseDamaged], None] = lambda _damage: None
        """Called once, in whichever thread found it."""
        self.on_commit: Callable[[], None] = lambda: None
        """Called in the writer's thread after those who wrote were answered. It must be quick and must not raise."""
        try:
            self._open()
        except (*DRIVER_ERRORS, DatabaseUnavailable) as error:
            raise self._named(error) from error
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, writes: Sequence[Write[Any]], settled: Callable[[], None]) -> None:
        """Queue writes, which share a commit.

        Args:
            settled: Called in the writer's thread once they are durable or have failed, each by itself. It must not raise.
        """
        if self._closed or self.damage is not None:
            closed = DatabaseUnavailable("The database is closed.", cause="The daemon is stopping.")
            for write in writes:
                write.error = self.damage or closed
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
        """Run a query on a read-only connection, on a consistent snapshot, in the caller's thread.

        Raises:
            DatabaseUnavailable: It could not be read.
        """
        self._check_damage()
        self._put_back()
        try:
            engine = self._reader_engine
            with engine.connect() as conn:
                with conn.begin():
                    result = operation(conn)
                if engine is not self._reader_engine:
                    conn.invalidate()  # the file was put back meanwhile: nobody takes this connection out of its pool again
                return result
        except DRIVER_ERRORS as error:
            raise self._named(error) from error

    def read_inline(self, operation: Operation[T]) -> T:
        """Run a query that is short, as :meth:`read` does, always in the same thread; one that is not is broken off.

        Raises:
            TooLong: It took more than a statement that finds little by an index; nothing came of it.
        """
        self._check_damage()
        try:
            if self._glancing is None or self._glancing.engine is not self._reader_engine:
                self._glancing = self._bounded()
            self._looks = 0
            with self._glancing.begin():
                return operation(self._glancing)
        except (*DRIVER_ERRORS, DatabaseUnavailable) as error:
            self._no_glancing()
            if self._looks > 1:
                raise TooLong from error
            raise self._named(error) from error

    def _bounded(self) -> Connection:
        """A connection of its own, since to fetch one from the pool takes as long as a short query."""

        def tired() -> bool:
            # A statement's steps are counted on from when it was used before: the first look means nothing.
            self._looks += 1
            return self._looks > 1

        self._no_glancing()
        self._put_back()
        conn = self._reader_engine.connect()
        raw: Any = conn.connection.dbapi_connection
        raw.set_progress_handler(tired, GLANCE_STEPS)
        return conn

    def _put_back(self) -> None:
        """Have the writer put a lost file back: a new connection would read what stands in its place."""
        if self.lost and not self._closed:
            self.write(lambda _conn: None)

    def _no_glancing(self) -> None:
        if self._glancing is not None:
            self._glancing.invalidate()
            self._glancing.close()
            self._glancing = None

    def found_damaged(self, what: str) -> DatabaseDamaged:
        """Take note that the file is damaged, as a check of it found: it answers nothing any more.

        Args:
            what: SQLite's report.
        """
        if self.damage is None:
            self.damage = damaged(self.path, what)
            self.on_damage(self.damage)
        return self.damage

    def _check_damage(self) -> None:
        if self.damage is not None:
            raise self.damage

    def _named(self, error: BaseException) -> BaseException:
        """The error as callers see it; damage of the file is taken note of."""
        if not is_unavailable(error):
            return error
        named = unavailable(error, self.path)
        is_damage = isinstance(named, DatabaseDamaged)
        return self.found_damaged(str(getattr(error, "orig", None) or error)) if is_damage else named

    @property
    def lost(self) -> bool:
        """Whether the file at the path is not the one that was opened any more; the next write puts it back."""
        return inodes(self._own_files) != self._opened

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
        self._writer_engine = open_engine(self.path, read_only=False, size=1)
        self._reader_engine = open_engine(self.path, read_only=True, size=self._readers)
        self._writer = self._writer_engine.connect()
        run_plain(self._writer, "SELECT 1 FROM sqlite_master")  # the log exists from the first query on
        self._writer.rollback()
        self._opened = inodes(self._own_files)

    # -- the writer's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            writes = [write for bundle in batch for write in bundle.writes if not write.unwanted]
            committed = bool(writes) and self._transaction(writes)
            self._expected = min(len(writes) + self._bundles.qsize(), GROUP_LIMIT)
            for bundle in batch:
                bundle.settled()
            self.on_commit()
            self._log.keep_short(committed=committed, is_quiet=self._bundles.empty())
            self._gather_until = time.monotonic() + GATHER_S

    def _next_batch(self) -> tuple[list[Bundle], bool]:
        """Wait for a bundle, take what else is there or comes at once; the second value says that none will follow."""
        try:
            bundle = self._bundles.get(timeout=self._log.due_in_s())
        except queue.Empty:
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

    def _transaction(self, batch: list[Write[Any]]) -> bool:
        """Whether it was committed; what became of each write stands in it."""
        try:
            self._check_damage()
            if self.lost:
                self._write_back()
            conn = self._writer
            with conn.begin():
                for write in batch:
                    self._one(conn, write, alone=len(batch) == 1)
        except BaseException as error:  # noqa: BLE001 - the writer survives everything; each waiter is told
            failure = error if isinstance(error, CorralError) else self._named(error)
            if not isinstance(failure, CorralError):
                failure = DatabaseUnavailable("The database is unavailable.", cause=str(failure))
            for write in batch:
                write.error = self.damage or write.error or failure
            return False
        return True

    def _write_back(self) -> None:
        """Restore the file from the one that is open and nameless now; a foreign one at its place is kept aside."""
        if self._has_left():
            raise DatabaseUnavailable(
                "The repository was moved or deleted.",
                cause=f"{self.path} belongs to a repository that is not there any more; its daemon ends.",
                remedy="Go on where the repository is now.",
            )
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
        log, index = beside(self.path)
        index.unlink(missing_ok=True)  # says only where what stands in the log
        for name, found, ours in zip((self.path, log), inodes(self._own_files), self._opened, strict=True):
            if found is not None and found != ours:
                name.replace(name.with_name(f"{name.name}.replaced"))
        # The content of our own log is in the copy too, and must not be read into it again.
        log.unlink(missing_ok=True)
        aside.replace(self.path)
        # SQLite leaves the log at the path alone when a connection closes whose file is no longer there.
        old, writing, reading = self._writer, self._writer_engine, self._reader_engine
        self._open()
        old.close()
        writing.dispose()
        reading.dispose()

    def _one(self, conn: Connection, write: Write[Any], *, alone: bool) -> None:
        raw: Any = conn.connection.dbapi_connection
        if alone:
            try:
                write.run(conn)
            except BaseException as error:
                write.error = self._named(error)
                raise
            return
        raw.execute("SAVEPOINT one")
        try:
            write.run(conn)
        except BaseException as error:  # noqa: BLE001 - given to the caller, after the rollback of its part
            write.error = self._named(error)
            self._check_damage()  # the others of this transaction would be acknowledged by a file that is damaged
            raw.execute("ROLLBACK TO SAVEPOINT one")
        raw.execute("RELEASE SAVEPOINT one")

    def _checkpoint(self, mode: str, wait_ms: int) -> None:
        """Move the write-ahead log into the database file; ``TRUNCATE`` cuts it too, where no reader is in it for so long."""
        if self.damage is not None:
            return
        run_plain(self._writer, f"PRAGMA busy_timeout={wait_ms}")
        raw = self._writer.connection.dbapi_connection
        assert raw is not None
        # A checkpoint that a reader or a full disk prevents has lost nothing: the log keeps it, and the next one tries again.
        try:
            raw.cursor().execute(f"PRAGMA wal_checkpoint({mode})").close()
        except sqlite3.Error as error:
            self._named(error)  # damage is taken note of
        run_plain(self._writer, f"PRAGMA busy_timeout={BUSY_MS}")
        with contextlib.suppress(DBAPIError):
            self._writer.rollback()


def shrink(conn: Connection, pages: int) -> int:
    """Give free pages back to the file system, which the next checkpoint completes.

    Args:
        pages: At most so many.

    Returns:
        How many are still free; always 0 where the file cannot shrink.
    """
    raw: Any = conn.connection.dbapi_connection
    if raw.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL:
        return 0
    raw.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
    return int(raw.execute("PRAGMA freelist_count").fetchone()[0])
