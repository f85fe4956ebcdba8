"""Connections to the database file, and the names of what the driver reports."""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from corral.core.errors import DatabaseDamaged, DatabaseUnavailable

DRIVER_ERRORS = (DBAPIError, sqlite3.DatabaseError)
"""Errors of the driver: by SQLAlchemy's name, and by the driver's own where it is called directly."""

BUSY_MS = 900
"""Milliseconds that a connection waits for a lock of another process (a backup, a person's ``sqlite3``). A write that comes while
another one waits is answered after both: within two seconds."""

CACHE_KIB = 16 * 1024
"""Size of the writer's page cache. A reader's pages are void after every write."""

_EVERY = ("synchronous=FULL", "foreign_keys=ON", "wal_autocheckpoint=0", "temp_store=MEMORY")
"""``temp_store`` is for the pages that a savepoint may have to undo."""
_WRITER = ("journal_mode=WAL", f"cache_size={-CACHE_KIB}", *_EVERY)
_READER = (*_EVERY, "query_only=ON")

DAMAGE = ("malformed", "not a database", "no such table")
"""SQLite's errors for a damaged file: a wrong page, a wrong header, a file that was emptied."""

_ANOTHER_VERSION = "If another version of Corral wrote it, install that one again, then `corral daemon restart`."

_HINTS = {
    "is locked": (
        "Another program has locked the database file.",
        "End the program that has `.corral/corral.db` open (a `sqlite3`, a backup), then try again; nothing was changed.",
    ),
    "full": ("The disk is full.", "Free some space and try again; nothing was lost."),
    "readonly": ("The database file or its folder is read-only.", "Make `.corral` writable and try again."),
    "unable to open": ("The database file cannot be opened.", "Check the permissions of `.corral`."),
    "disk I/O": ("The disk reported an error.", "Check the disk's space and health, then try again."),
    **dict.fromkeys(
        ("no such column", "has no column named"),
        (
            "Its tables are not those of this version: another version of Corral wrote them, or something changed them.",
            f"{_ANOTHER_VERSION} Or begin with a new one: `corral daemon stop`, move `.corral/corral.db*` into another folder, "
            "`corral daemon start`.",
        ),
    ),
}


def is_unavailable(error: BaseException) -> bool:
    """Whether the driver reports the state of the file or the disk, and not a broken rule of the schema."""
    raw = getattr(error, "orig", None) or error
    return isinstance(raw, sqlite3.OperationalError) or type(raw) is sqlite3.DatabaseError


def unavailable(error: BaseException, path: Path) -> DatabaseUnavailable:
    """Convert a driver's error: a damaged file, a full disk, a read-only file, or another reason.

    Args:
        path: The database file.
    """
    text = str(getattr(error, "orig", None) or error)
    if any(marker in text for marker in DAMAGE):
        return damaged(path, text)
    for marker, (cause, remedy) in _HINTS.items():
        if marker in text:
            return DatabaseUnavailable("The database is unavailable.", cause=f"{cause} ({text})", remedy=remedy)
    return DatabaseUnavailable("The database is unavailable.", cause=text)


def damaged(path: Path, what: str) -> DatabaseDamaged:
    """The error of a damaged file, with the commands that lead out of it.

    Args:
        what: SQLite's report.
    """
    aside = next(
        folder
        for number in range(1, 1000)
        if not (folder := path.with_name("damaged" if number == 1 else f"damaged-{number}")).exists()
    )
    back = f"{_ANOTHER_VERSION} Otherwise move" if "no such table" in what else "Move"
    home, to = shlex.quote(str(path.parent)), shlex.quote(str(aside))
    # The file and its log, but not other files with this prefix: copies before an upgrade, databases of other repositories.
    which = f"\\( -name {path.name} -o -name '{path.name}-*' \\)"
    move = f"mkdir {to} && find {home} -maxdepth 1 {which} -exec mv {{}} {to} \\;"
    return DatabaseDamaged(
        "The database file is damaged.",
        cause=f"Something other than Corral changed {path}, or the disk is failing. ({what})",
        remedy=f"{back} it aside and begin with a new one: `corral daemon stop`, `{move}`, `corral daemon start`. Commits, "
        "branches, worktrees and saved work (`corral worktree recover`) are in git and stay. The queue, locks, mail, "
        "handoffs, memories and receipts are lost: submit open branches again with `corral merge submit BRANCH`.",
    )


def open_engine(path: Path, *, read_only: bool, size: int) -> Engine:
    """A pool of connections to an existing file; a file that is gone is not created again."""
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=BUSY_MS / 1000, isolation_level=None)

    # Nobody waits for a connection: there are no more of them than threads that read.
    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=size, max_overflow=-1)

    @event.listens_for(engine, "connect")
    def _on_connect(dbapi_connection: Any, _record: Any) -> None:
        try:
            cursor = dbapi_connection.cursor()
            for pragma in _READER if read_only else _WRITER:
                cursor.execute(f"PRAGMA {pragma}")
            cursor.close()
        except sqlite3.Error:
            dbapi_connection.close()
            raise

    @event.listens_for(engine, "begin")
    def _on_begin(conn: Connection) -> None:
        raw: Any = conn.connection.dbapi_connection
        if not raw.in_transaction:  # the driver may have begun one already
            raw.execute("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def run_plain(conn: Connection, statement: str) -> None:
    """Run a statement without parameters or rows by the driver itself: SQLAlchemy would take many times as long."""
    raw = conn.connection.dbapi_connection
    assert raw is not None
    raw.cursor().execute(statement)


def watch(conn: Connection, table: Table, columns: Sequence[str], note: Callable[[], None]) -> None:
    """Call something in each transaction of a connection that inserts or removes a row of a table, or sets one of these columns.

    Whoever writes it, and with whatever statement: the database itself tells, by triggers that this connection alone has.
    """
    raw: Any = conn.connection.dbapi_connection
    raw.create_function("note", 0, note)
    for number, change in enumerate(("INSERT", "DELETE", f"UPDATE OF {', '.join(columns)}")):
        raw.execute(f"CREATE TEMP TRIGGER note_{number} AFTER {change} ON main.{table.name} BEGIN SELECT note(); END")


def beside(path: Path) -> list[Path]:
    """The write-ahead log and its index."""
    return [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]


def inodes(names: Sequence[str]) -> list[tuple[int, int] | None]:
    """The device and inode of each file, None for a missing one. Called before every commit."""
    identities: list[tuple[int, int] | None] = []
    for name in names:
        try:
            status = os.lstat(name)
        except FileNotFoundError:
            identities.append(None)
        else:
            identities.append((status.st_dev, status.st_ino))
    return identities
