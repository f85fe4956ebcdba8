"""The schema: the revision that is named is the newest there is."""

from __future__ import annotations

from pathlib import Path

from alembic.script import ScriptDirectory

from corral.store.engine import Database
from corral.store.inspection import schema_of
from corral.store.migrate import HEAD, alembic_config, open_schema


def test_the_revision_that_a_start_looks_for_is_the_newest_and_what_a_new_database_has(tmp_path: Path) -> None:
    path = tmp_path / "corral.db"
    assert ScriptDirectory.from_config(alembic_config(path)).get_current_head() == HEAD
    open_schema(path)
    database = Database(path)
    assert database.read(schema_of) == HEAD
    database.close()
