"""The audit is append-only, and the database itself keeps it so."""

from __future__ import annotations

from sqlalchemy import Connection

from corral.store.engine.dialect import Dialect, dialect_of

_REFUSALS = {
    "audit_lines_changed": "BEFORE UPDATE ON audit_lines",
    "audit_lines_deleted": (
        "BEFORE DELETE ON audit_lines WHEN old.seq > coalesce((SELECT removed_seq FROM audit_chain), 0)"
    ),
}


def keep_append_only(conn: Connection) -> None:
    """Create the triggers that refuse a change of a line; called when the tables are created."""
    if dialect_of(conn) is Dialect.SQLITE:  # a server has roles and rights for that
        for name, when in _REFUSALS.items():
            conn.exec_driver_sql(
                f"CREATE TRIGGER {name} {when} BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
            )
