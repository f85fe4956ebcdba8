"""Looking at the database itself, for ``corral doctor``."""

from __future__ import annotations

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection


def health_of(conn: Connection) -> str:
    """``ok``, or the first problem that a whole check finds."""
    return str(conn.exec_driver_sql("PRAGMA integrity_check(1)").scalar())


def schema_of(conn: Connection) -> str | None:
    """The revision of the schema."""
    return MigrationContext.configure(conn).get_current_revision()
