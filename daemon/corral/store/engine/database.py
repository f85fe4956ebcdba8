"""The database: one writer thread whose transactions are shared, and read-only readers.

Invariants:
    * The daemon is the only process that opens the file, and only the writer thread writes or checkpoints it.
      (SQLite before 3.51.3 can corrupt a WAL file when two connections write and checkpoint at once.)
    * Every write runs in ``BEGIN IMMEDIATE`` with ``synchronous=FULL``; it is settled after the commit, so an
      answer that was given is durable. Writes that wait together share one commit (group commit).
    * A write that raises is undone alone, by its savepoint; its neighbours in the same transaction are kept.
    * A file that somebody removes or replaces while it is open (``git clean -fdx``) is written back before the next write:
      until then acknowledged writes are in the open file only, and a reader that opens the path would see another one.
    * Once an error shows that the open file is damaged, every call fails: what can still be read may be wrong, and an
      acknowledged write may be lost.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

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
    watch,
)
from corral.store.engine.log import WriteAheadLog
from corral.store.engine.writes import Bundle, Write
from corral.store.protocol import Operation, TooLong
from corral.store.schema import agent_sessions

P = ParamSpec("P")
T = TypeVar("T")

GROUP_LIMIT = 64
"""At most this many operations share one commit, which bounds the wait of the first of them."""

GATHER_S = 0.001
"""Seconds that a commit waits for as many writes as the previous one had: those clients are likely to write again."""

INLINE_STEPS = 10_000
"""Maximum number of steps of SQLite's machine in an inline read (at most twice as many): about a millisecond."""

CLIENTS = ("client_pid", "client_started", "parent_session_id", "status")
"""The columns that say which process is the client of a live session."""

INCREMENTAL = 2
"""SQLite's number for databases that shrink in steps."""


class Database:
    """Opened once by the daemon; callers use :meth:`write`, :meth:`submit` and :meth:`read`.

    Args:
        path: The SQLite file. Its folder exists; the schema is current (see :mod:`corral.store.migrate`).
        readers: How many connections may read at once.
        has_left: Whether the repository is gone from its path: then a lost file is not put back, and nothing is written.

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
        self._inline: Connection | None = None
        self._idle: deque[Connection] = deque()
        self._progress_calls = 0
        self._clients_changed = False
        self.clients_version = 0
        """Another number once it was written which process is the client of a session, or which sessions live: what was read
        before, with the number that was read first, is out of date. It is raised before those writes are settled."""
        self.damage: DatabaseDamaged | None = None
        """The error that every read and write raises once damage of the file was detected."""
        self.on_damage: Callable[[DatabaseDamaged], None] = lambda _damage: None
        """Called once, in the thread that detected it."""
        self.on_commit: Callable[[], None] = lambda: None
        """Called in the writer's thread after the writes were settled. It must be quick and must not raise."""
        try:
            self._open()
        except (*DRIVER_ERRORS, DatabaseUnavailable) as error:
            raise self._convert_error(error) from error
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

    def write(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a write and wait until it is durable.

        Raises:
            DatabaseUnavailable: The transaction could not be committed; nothing was changed.
        """
        write, done = Write(operation, *args, **kwargs), threading.Event()
        self.submit([write], done.set)
        done.wait()
        return write.outcome()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only connection, on a consistent snapshot, for the caller's thread.

        Raises:
            DatabaseUnavailable: It could not be read.
        """
        self._check_damage()
        self._restore_file()
        try:
            conn = self._reader()
            try:
                with conn.begin():
                    yield conn
            finally:
                self._give_back(conn)
        except DRIVER_ERRORS as error:
            raise self._convert_error(error) from error

    def _reader(self) -> Connection:
        """A connection that nobody reads with: to fetch one from the pool takes as long as a short query."""
        while (conn := self._idle_reader()) is not None:
            if conn.engine is self._reader_engine:
                return conn
            self._discard(conn)
        return self._reader_engine.connect()

    def _idle_reader(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:  # asked for beforehand, another thread could take it
            return None

    def _give_back(self, conn: Connection) -> None:
        if len(self._idle) < self._readers and not self._closed:
            self._idle.append(conn)
        else:
            self._discard(conn)

    def _discard(self, conn: Connection) -> None:
        if conn.engine is not self._reader_engine:
            conn.invalidate()  # the file was put back meanwhile: this connection's pool is not used any more
        conn.close()

    def read(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query as :meth:`reading` does."""
        with self.reading() as conn:
            return operation(conn, *args, **kwargs)

    def read_inline(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a short query, as :meth:`read` does, always in the same thread; a longer one is broken off.

        Raises:
            TooLong: It took longer than a lookup of a few rows by an index; it had no effect.
        """
        self._check_damage()
        try:
            if self._inline is None or self._inline.engine is not self._reader_engine:
                self._inline = self._connect_inline()
            self._progress_calls = 0
            # Begun and ended by the driver: SQLAlchemy takes as long for that as a short query.
            raw: Any = self._inline.connection.dbapi_connection
            raw.execute("BEGIN")
            try:
                return operation(self._inline, *args, **kwargs)
            finally:
                raw.rollback()
                self._inline.rollback()
        except (*DRIVER_ERRORS, DatabaseUnavailable) as error:
            self._close_inline()
            if self._progress_calls > 1:
                raise TooLong from error
            raise self._convert_error(error) from error

    def _connect_inline(self) -> Connection:
        """A connection of its own, since to fetch one from the pool takes as long as a short query."""

        def is_too_long() -> bool:
            # SQLite goes on counting from a statement's previous use: the first call proves nothing.
            self._progress_calls += 1
            return self._progress_calls > 1

        self._close_inline()
        self._restore_file()
        conn = self._reader_engine.connect()
        raw: Any = conn.connection.dbapi_connection
        raw.set_progress_handler(is_too_long, INLINE_STEPS)
        return conn

    def _close_idle(self) -> None:
        while (conn := self._idle_reader()) is not None:
            self._discard(conn)

    def _restore_file(self) -> None:
        """Have the writer put a lost file back: a new connection would read the file that is in its place."""
        if self.lost and not self._closed:
            self.write(lambda _conn: None)

    def _close_inline(self) -> None:
        if self._inline is not None:
            self._inline.invalidate()
            self._inline.close()
            self._inline = None

    def record_damage(self, what: str) -> DatabaseDamaged:
        """Record that the file is damaged, so that every further call fails.

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

    def _convert_error(self, error: BaseException) -> BaseException:
        """Convert an error to the one that callers see, and record damage of the file."""
        if not is_unavailable(error):
            return error
        named = unavailable(error, self.path)
        is_damage = isinstance(named, DatabaseDamaged)
        return self.record_damage(str(getattr(error, "orig", None) or error)) if is_damage else named

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
        self._close_inline()
        self._close_idle()
        self._reader_engine.dispose()
        self._writer.close()
        self._writer_engine.dispose()

    def _open(self) -> None:
        self._writer_engine = open_engine(self.path, read_only=False, size=1)
        self._reader_engine = open_engine(self.path, read_only=True, size=self._readers)
        self._writer = self._writer_engine.connect()
        run_plain(self._writer, "SELECT 1 FROM sqlite_master")  # the log exists from the first query on
        self._writer.rollback()
        watch(self._writer, agent_sessions, CLIENTS, self._note_clients)
        self._opened = inodes(self._own_files)

    # -- the writer's thread ------------------------------------------------------------------------------------

    def _note_clients(self) -> None:
        self._clients_changed = True

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            writes = [write for bundle in batch for write in bundle.writes if not write.unwanted]
            changed_rows = self._transaction(writes) if writes else None
            self._expected = min(len(writes) + self._bundles.qsize(), GROUP_LIMIT)
            for bundle in batch:
                bundle.settled()
            self.on_commit()
            self._log.keep_short(changed_rows=changed_rows, is_quiet=self._bundles.empty())
            self._gather_until = time.monotonic() + GATHER_S

    def _next_batch(self) -> tuple[list[Bundle], bool]:
        """Wait for a bundle, and take all that are queued or come at once; the second value: none will follow."""
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

    def _transaction(self, writes: list[Write[Any]]) -> int | None:
        """Run writes in one transaction; how many rows it changed, None: nothing. Each write holds its own result or error."""
        try:
            self._check_damage()
            if self.lost:
                self._write_back()
            conn = self._writer
            raw: Any = conn.connection.dbapi_connection
            before = raw.total_changes
            with conn.begin():
                for write in writes:
                    self._run_write(conn, raw, write, alone=len(writes) == 1)
        except BaseException as error:  # noqa: BLE001 - the writer survives everything; each waiter is told
            failure = error if isinstance(error, CorralError) else self._convert_error(error)
            if not isinstance(failure, CorralError):
                failure = DatabaseUnavailable("The database is unavailable.", cause=str(failure))
            for write in writes:
                write.error = self.damage or write.error or failure
            return None
        if self._clients_changed:
            self._clients_changed, self.clients_version = False, self.clients_version + 1
        return int(raw.total_changes - before)

    def _write_back(self) -> None:
        """Restore the file from the open one, which has no name any more; another file at the path is renamed."""
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
        log_file, index = beside(self.path)
        index.unlink(missing_ok=True)  # only an index of the log
        for name, current, opened in zip((self.path, log_file), inodes(self._own_files), self._opened, strict=True):
            if current is not None and current != opened:
                name.replace(name.with_name(f"{name.name}.replaced"))
        # The content of our own log is in the copy too, and must not be read into it again.
        log_file.unlink(missing_ok=True)
        aside.replace(self.path)
        # SQLite leaves the log at the path alone when a connection closes whose file is no longer there.
        old, writing, reading = self._writer, self._writer_engine, self._reader_engine
        self._open()
        self._close_idle()
        old.close()
        writing.dispose()
        reading.dispose()

    def _run_write(self, conn: Connection, raw: Any, write: Write[Any], *, alone: bool) -> None:
        if alone:
            try:
                write.run(conn)
            except BaseException as error:
                write.error = self._convert_error(error)
                raise
            return
        raw.execute("SAVEPOINT one")
        try:
            write.run(conn)
        except BaseException as error:  # noqa: BLE001 - given to the caller, after the rollback of its part
            write.error = self._convert_error(error)
            self._check_damage()  # the others of this transaction would be acknowledged by a file that is damaged
            raw.execute("ROLLBACK TO SAVEPOINT one")
        raw.execute("RELEASE SAVEPOINT one")

    def _checkpoint(self, mode: str, wait_ms: int) -> None:
        """Move the write-ahead log into the database file; ``TRUNCATE`` also cuts it, if readers leave it within ``wait_ms``."""
        if self.damage is not None:
            return
        run_plain(self._writer, f"PRAGMA busy_timeout={wait_ms}")
        raw = self._writer.connection.dbapi_connection
        assert raw is not None
        # A checkpoint that a reader or a full disk prevents has lost nothing: the log keeps it, and the next one tries again.
        try:
            raw.cursor().execute(f"PRAGMA wal_checkpoint({mode})").close()
        except sqlite3.Error as error:
            self._convert_error(error)  # records damage
        run_plain(self._writer, f"PRAGMA busy_timeout={BUSY_MS}")
        with contextlib.suppress(DBAPIError):
            self._writer.rollback()


def shrink(conn: Connection, pages: int) -> int:
    """Give free pages back to the file system, which the next checkpoint completes.

    Args:
        pages: At most this many.

    Returns:
        How many are still free; always 0 where the file cannot shrink.
    """
    raw: Any = conn.connection.dbapi_connection
    if raw.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL:
        return 0
    raw.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
    return int(raw.execute("PRAGMA freelist_count").fetchone()[0])
