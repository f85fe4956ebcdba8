"""Bring a database to the schema of this version, or refuse to touch it."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError

from corral.errors import DatabaseUnavailable
from corral.store.engine import unavailable

_SCRIPTS = Path(__file__).parent / "migrations"


def alembic_config(path: Path) -> Config:
    """The Alembic configuration for one database file; there is no ``alembic.ini``."""
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["path"] = path
    return config


def open_schema(path: Path) -> None:
    """Create or upgrade the database at ``path``.

    An existing database is checked first (``quick_check``); before an upgrade a copy is left beside it, taken through
    SQLite's own backup.

    Raises:
        DatabaseUnavailable: The file is damaged, was written by a newer Corral, or cannot be written. It is left as it was.
    """
    config = alembic_config(path)
    script = ScriptDirectory.from_config(config)
    head = script.get_current_head()
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 5})

    @event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA wal_autocheckpoint=0")

    try:
        existed = path.exists() and path.stat().st_size > 0
        path.touch(mode=0o600)
        with engine.connect() as conn:
            if existed:
                verdict = conn.exec_driver_sql("PRAGMA quick_check(1)").scalar()
                if verdict != "ok":
                    raise DatabaseUnavailable(
                        "The database file is damaged.",
                        cause=str(verdict),
                        remedy=f"Move {path} aside (do not delete it) and start again; `corral doctor` tells what can be saved.",
                    )
            current = MigrationContext.configure(conn).get_current_revision()
            conn.rollback()
        if current == head:
            return
        if current is not None and current not in {revision.revision for revision in script.walk_revisions()}:
            raise DatabaseUnavailable(
                "The database was written by a newer version of Corral.",
                cause=f"Its schema is {current}; this version knows up to {head}.",
                remedy="Install the newer version again.",
            )
        if current is not None:
            _backup(path, path.with_name(f"{path.name}.before-{head}"))
        with engine.connect() as conn:
            config.attributes["connection"] = conn
            command.upgrade(config, "head")
            conn.commit()
    except (DBAPIError, OSError, sqlite3.Error) as error:
        raise unavailable(error) from error
    finally:
        engine.dispose()


def _backup(source: Path, target: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    with sqlite3.connect(source) as old, sqlite3.connect(partial) as new:
        old.backup(new)
    old.close()
    new.close()
    shutil.move(partial, target)
