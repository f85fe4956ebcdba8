"""Looking at the database itself, for ``corral doctor``."""

from __future__ import annotations

from sqlalchemy import Connection


def health_of(conn: Connection) -> str:
    """``ok``, or the first problem that a whole check finds."""
    return str(conn.exec_driver_sql("PRAGMA integrity_check(1)").scalar())


def schema_of(conn: Connection) -> str | None:
    """The revision of the schema."""
    revision = conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return None if revision is None else str(revision)
