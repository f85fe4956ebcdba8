"""Bring a database to the schema of this version, or refuse to touch it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from corral.errors import DatabaseUnavailable
from corral.store.engine import unavailable

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0002"
"""The newest revision in ``migrations/``. Said here so that a start with a current database needs no Alembic: it and what
it imports (every dialect there is) are an eighth of a start, and 20 MB."""

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

    An existing database is checked first (``quick_check``). A new one, and a new version of an old one, is made aside and
    moved in: a kill at any moment leaves the old database or the new one, never half of one. The old one stays beside it.

    Raises:
        DatabaseUnavailable: The file is damaged, was written by a newer Corral, or cannot be written. It is left as it was.
    """
    try:
        current = _revision(path)
        if current != HEAD:
            _upgrade(path, current)
    except (DBAPIError, OSError, sqlite3.Error) as error:
        raise unavailable(error) from error


def _upgrade(path: Path, current: str | None) -> None:
    from alembic import command
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(alembic_config(path))
    if current is not None and current not in {revision.revision for revision in script.walk_revisions()}:
        raise DatabaseUnavailable(
            "The database was written by a newer version of Corral.",
            cause=f"Its schema is {current}; this version knows up to {HEAD}.",
            remedy="Install the newer version again.",
        )
    aside = path.with_name(f"{path.name}.next")
    aside.unlink(missing_ok=True)
    aside.touch(mode=0o600)
    if current is not None:
        _copy(path, aside)
        _copy(path, path.with_name(f"{path.name}.before-{HEAD}"))
        _fold_log(path)
    command.upgrade(alembic_config(aside), HEAD)
    with aside.open("rb+") as file:
        os.fsync(file.fileno())
    aside.replace(path)


def _revision(path: Path) -> str | None:
    """The schema of an existing, sound database; None where there is none yet."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    conn = sqlite3.connect(path, timeout=5)
    try:
        conn.execute("PRAGMA wal_autocheckpoint=0")
        verdict = conn.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise DatabaseUnavailable(
                "The database file is damaged.",
                cause=str(verdict),
                remedy=f"Move {path} aside (do not delete it) and start again; `corral doctor` tells what can be saved.",
            )
        known = conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
        row = conn.execute("SELECT version_num FROM alembic_version").fetchone() if known else None
        return str(row[0]) if row else None
    finally:
        conn.close()


def _fold_log(path: Path) -> None:
    """Move the write-ahead log into the database and remove it: a log left behind would be replayed into the new file."""
    conn = sqlite3.connect(path)
    try:
        conn.execute("PRAGMA journal_mode=DELETE").close()
    finally:
        conn.close()


def _copy(source: Path, target: Path) -> None:
    """Copy a database through SQLite's own backup, which sees a consistent state."""
    old, new = sqlite3.connect(source), sqlite3.connect(target)
    try:
        old.backup(new)
    finally:
        new.close()
        old.close()
