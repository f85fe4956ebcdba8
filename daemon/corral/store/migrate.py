"""Bring a database to the schema of this version, or refuse to touch it."""

from __future__ import annotations

import os
import shlex
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, create_engine, insert, text
from sqlalchemy.dialects import registry
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from corral.core.errors import DatabaseUnavailable
from corral.store.append_only import keep_append_only
from corral.store.engine.connections import damaged, unavailable
from corral.store.engine.dialect import Dialect, dialect_of
from corral.store.engine.search import create_indexes
from corral.store.schema import VIEWS
from corral.store.schema_coordination import event_cursors
from corral.store.schema_project import audit_lines  # noqa: F401 - its tables are part of the metadata
from corral.store.table import metadata

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0028"
"""The newest revision in ``migrations/``. Written here so that a start with a current database needs no Alembic: it and its
imports (every dialect) take a fifth of a start, and 12 MB."""

FIRST = "0017"
"""The oldest revision that can be opened: before it no version was released."""

_SHRINKING = "PRAGMA auto_vacuum=INCREMENTAL"
"""Lets the file become smaller, a few pages at a time, when rows are deleted. In a database with tables it needs a VACUUM."""

_SCRIPTS = Path(__file__).parent / "migrations"


def alembic_config(database: Path | URL) -> Config:
    """The Alembic configuration for one database, a file or a server's; there is no ``alembic.ini``."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    file = isinstance(database, Path)
    config.attributes["url"] = URL.create("sqlite", database=str(database)) if file else database
    return config


def open_schema(path: Path) -> None:
    """Create or upgrade the database at ``path``.

    An existing database is checked first (``quick_check``). A new database, or an upgraded copy, is written beside it and
    then renamed: a kill at any moment leaves the old database or the new one, never a part. A copy of the old one stays.

    Raises:
        DatabaseUnavailable: The file is damaged, was written by a newer Corral or by one that was never released, or cannot be
            written. It is left as it was.
    """
    try:
        for unfinished in path.parent.glob(f"{path.name}.next*"):  # of a start that was killed
            unfinished.unlink()
        current = _revision(path)
        if current is None:
            _create(path)
        elif current != HEAD:
            _upgrade(path, current)
    except (DBAPIError, OSError, sqlite3.Error) as error:
        raise unavailable(error, path) from error


def _create(path: Path) -> None:
    aside = _create_aside(path)
    with closing(sqlite3.connect(aside)) as conn:
        conn.execute(_SHRINKING)
    engine = create_engine(URL.create("sqlite", database=str(aside)))
    try:
        with engine.begin() as conn:
            conn.exec_driver_sql("BEGIN")  # or each statement would be one transaction, and wait for the disk
            make_schema(conn)
    finally:
        engine.dispose()
    _move_in(aside, path)


def make_schema(conn: Connection) -> None:
    """Create the schema of a new database, SQLite's or a server's: tables, indexes, triggers and first rows."""
    raw: Any = conn.connection
    with closing(raw.cursor()) as cursor:
        for definition in definitions(dialect_of(conn)):
            cursor.execute(definition)
    create_indexes(conn)
    keep_append_only(conn)
    conn.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    conn.execute(insert(event_cursors).values(reader="announcements", event_id=0))
    conn.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


@cache
def definitions(dialect: Dialect) -> list[str]:
    """The SQL that creates all tables, their indexes, and the views.

    Of two equally good indexes SQLite takes the one created last, and a table holds its indexes in a set: so they are created
    in a fixed order, partial ones last.
    """
    tables = metadata.sorted_tables
    indexes = [index for table in tables for index in table.indexes]
    indexes.sort(key=lambda index: (len(str(index.kwargs.get("sqlite_where"))), str(index.name)))
    creations: list[ExecutableDDLElement] = [*map(CreateTable, tables), *map(CreateIndex, indexes)]
    driver = registry.load(dialect.value)()
    views = [f"CREATE VIEW {name} AS {query.compile(dialect=driver)}" for name, query in VIEWS.items()]
    return [*(str(creation.compile(dialect=driver)) for creation in creations), *views]


def _upgrade(path: Path, current: str) -> None:
    from alembic import command
    from alembic.script import ScriptDirectory

    if current < FIRST:
        quoted = shlex.quote(str(path))
        raise DatabaseUnavailable(
            "The database was written by a version of Corral that was never released.",
            cause=f"Its schema is {current}; this version knows {FIRST} to {HEAD}.",
            remedy=f"Finish its work with that version. Or begin with an empty queue: `mv {quoted} {quoted}.old`.",
        )
    script = ScriptDirectory.from_config(alembic_config(path))
    if current not in {revision.revision for revision in script.walk_revisions()}:
        raise DatabaseUnavailable(
            "The database was written by a newer version of Corral.",
            cause=f"Its schema is {current}; this version knows up to {HEAD}.",
            remedy="Install the newer version again.",
        )
    aside = _create_aside(path)
    _copy(path, aside)
    _copy(path, path.with_name(f"{path.name}.before-{HEAD}"))
    _fold_log(path)
    command.upgrade(alembic_config(aside), HEAD)
    _compact(aside)
    _move_in(aside, path)


def _compact(aside: Path) -> None:
    """Rewrite a database that nobody has open without its free pages, and let it become smaller from now on."""
    with closing(sqlite3.connect(aside)) as conn:
        conn.execute(_SHRINKING)
        conn.execute("VACUUM")


def move_aside(path: Path, aside: Path) -> None:
    """Rename a closed database; its log is folded in first, so that one rename moves everything.

    Raises:
        DatabaseUnavailable: Another process has it open, or the folder cannot be written; nothing was renamed.
    """
    try:
        _fold_log(path)
        path.replace(aside)
    except (OSError, sqlite3.Error) as error:
        raise unavailable(error, path) from error


def take_over(source: Path, path: Path) -> None:
    """Make a copy of ``source`` the database at ``path``, where there is none, in the schema of this version.

    Raises:
        DatabaseUnavailable: It is no sound database of this or an earlier version, or cannot be read or written.
    """
    try:
        if _revision(source) is None:
            raise DatabaseUnavailable(
                f"{source} is not a database of Corral's.",
                remedy="Name a file that was set aside: `ls .corral/corral.db.of-*`.",
            )
        aside = _create_aside(path)
        _copy(source, aside)
        _move_in(aside, path)
    except (DBAPIError, OSError, sqlite3.Error) as error:
        raise unavailable(error, source) from error
    open_schema(path)


def _create_aside(path: Path) -> Path:
    """An empty file beside the database, for its next version."""
    aside = path.with_name(f"{path.name}.next")
    aside.unlink(missing_ok=True)
    aside.touch(mode=0o600)
    return aside


def _move_in(aside: Path, path: Path) -> None:
    with aside.open("rb+") as file:
        os.fsync(file.fileno())
    aside.replace(path)


def _revision(path: Path) -> str | None:
    """The schema of an existing, sound database; None where there is none yet."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    with closing(sqlite3.connect(path, timeout=5)) as conn:
        conn.execute("PRAGMA wal_autocheckpoint=0")
        verdict = conn.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise damaged(path, str(verdict))
        has_table = conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
        row = conn.execute("SELECT version_num FROM alembic_version").fetchone() if has_table else None
        return str(row[0]) if row else None


def _fold_log(path: Path) -> None:
    """Move the write-ahead log into the database and remove it: a log left behind would be replayed into the new file."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA journal_mode=DELETE").close()


def _copy(source: Path, target: Path) -> None:
    """Copy a database through SQLite's own backup, which sees a consistent state."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
