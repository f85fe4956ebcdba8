"""The schema: the revision that is named is the newest there is."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

from corral.store import schema_coordination
from corral.store.engine import Database
from corral.store.inspection import schema_of
from corral.store.migrate import HEAD, alembic_config, open_schema
from tests import new_database


def test_the_revision_that_a_start_looks_for_is_the_newest_and_what_a_new_database_has(tmp_path: Path) -> None:
    path = tmp_path / "corral.db"
    assert ScriptDirectory.from_config(alembic_config(path)).get_current_head() == HEAD
    open_schema(path)
    database = Database(path)
    assert database.read(schema_of) == HEAD
    database.close()


def spelled(path: Path) -> list[str]:
    """What makes the database, whatever blanks the versions of Alembic and SQLite leave in it."""
    return [" ".join(statement.split()) for statement in new_database.statements(path)]


def test_a_new_database_is_what_the_migrations_make_of_nothing(tmp_path: Path) -> None:
    new, migrated = tmp_path / "new.db", tmp_path / "migrated.db"
    open_schema(new)
    new_database.migrated(migrated)
    assert spelled(new) == spelled(migrated), "after a change of the migrations: python -m tests.new_database"
    assert new.stat().st_mode & 0o077 == 0


def test_an_older_database_gets_what_a_new_one_has_and_is_kept_beside_it(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    command.upgrade(alembic_config(old), "0001")
    open_schema(old)
    open_schema(new)
    assert spelled(old) == spelled(new)
    assert (tmp_path / f"old.db.before-{HEAD}").exists()


def test_the_migrations_make_the_schema_in_postgresql_too(postgresql: Engine) -> None:
    with postgresql.connect() as conn:
        assert schema_of(conn) == HEAD
        opts = {"compare_type": True, "include_object": lambda _, name, *__: not str(name).endswith("_fts")}
        context = MigrationContext.configure(conn, opts=opts)
        assert compare_metadata(context, schema_coordination.metadata) == []
        query = "SELECT indexname FROM pg_indexes WHERE indexdef LIKE 'CREATE UNIQUE % WHERE %removed%'"
        live = {str(row[0]) for row in conn.execute(text(query))}
    assert live == {"uq_worktrees_live_name", "uq_worktrees_live_port"}
