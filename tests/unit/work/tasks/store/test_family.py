"""What is asked at every step of the supervisor costs what it finds, however many tasks there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.dialects import sqlite

from corral.store.engine.database import Database
from corral.store.engine.prepared import Prepared
from corral.store.migrate import open_schema
from corral.work.tasks.store import family


@pytest.mark.parametrize("statement", [family.DECIDED, family.LEADERLESS], ids=["decided", "leaderless"])
def test_a_step_reads_open_families_alone(tmp_path: Path, statement: Prepared[object]) -> None:
    open_schema(tmp_path / "corral.db")
    db = Database(tmp_path / "corral.db")
    sql = str(statement.statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    try:
        steps = db.read(lambda conn: [row.detail for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}")])
    finally:
        db.close()
    assert "ix_tasks_open_" in steps[0] and not any(step == "SCAN tasks" for step in steps), steps
