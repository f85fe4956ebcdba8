"""What a session holds costs what it holds, however many tasks others have claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.work.tasks.store import tasks


def _plan(conn: Connection) -> list[str]:
    asked = list[str]()
    raw: Any = conn.connection.dbapi_connection
    raw.set_trace_callback(asked.append)
    tasks.held_by(conn, ["s-1"])
    raw.set_trace_callback(None)
    return [row.detail for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked[-1]}")]


def test_what_a_session_holds_is_found_by_its_own_attempts(tmp_path: Path) -> None:
    open_schema(tmp_path / "corral.db")
    db = Database(tmp_path / "corral.db")
    try:
        steps = db.write(_plan)
    finally:
        db.close()
    assert steps[0] == "SEARCH attempts USING INDEX ix_attempts_open_session_id (session_id=?)", steps
