"""Looking at the database itself, for ``corral doctor``."""

from __future__ import annotations

from sqlalchemy import Connection

SAFE_SQLITE = (3, 51, 3)
"""The first version without the WAL-reset fault (which one writing process, as here, does not meet)."""


def health_of(conn: Connection) -> str:
    """``ok``, or the first problem of a full check."""
    return str(conn.exec_driver_sql("PRAGMA integrity_check(1)").scalar())


def quick_health_of(conn: Connection) -> str:
    """``ok``, or the first problem of a check that does not compare indexes with their tables."""
    return str(conn.exec_driver_sql("PRAGMA quick_check(1)").scalar())


def pages(conn: Connection) -> tuple[int, int]:
    """How many pages of the file are free, and how many it has."""
    free = conn.exec_driver_sql("PRAGMA freelist_count").scalar()
    return int(free or 0), int(conn.exec_driver_sql("PRAGMA page_count").scalar() or 0)


def schema_of(conn: Connection) -> str | None:
    """The revision of the schema."""
    revision = conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return None if revision is None else str(revision)


def library_of(conn: Connection) -> dict[str, str | bool]:
    """The database library: ``version``, and whether it has a fault that a second writing process could meet (``wal_fault``)."""
    version = ".".join(str(part) for part in conn.dialect.server_version_info or ())
    return {"version": version, "wal_fault": (conn.dialect.server_version_info or ()) < SAFE_SQLITE}
