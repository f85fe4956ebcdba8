"""The schema: a new database is made from the tables, one of this version opens as it is, an older one is refused untouched."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import IntegrityError

from corral.core.errors import DatabaseUnavailable
from corral.core.instants import UTC
from corral.core.states import ReceiptStatus
from corral.store import events, schema_coordination, schema_project
from corral.store.engine import search
from corral.store.engine.database import Database
from corral.store.engine.inspection import schema_of
from corral.store.migrate import HEAD, alembic_config, open_schema
from corral.store.table import metadata
from corral.work.merges.store import receipts

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STORED = Path(__file__).parent / "stored"


def stored(path: Path, revision: str) -> None:
    """A database as a daemon of that revision left it, with its rows."""
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript((STORED / f"of_{revision}.sql").read_text(encoding="utf-8"))


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables, by column name, since the order of columns is no part of a schema."""
    with closing(sqlite3.connect(path)) as conn:
        conn.row_factory = sqlite3.Row
        names = [row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: sorted(
                (tuple(sorted(dict(row).items())) for row in conn.execute(f'SELECT * FROM "{name}"')), key=repr
            )
            for name in names
            if "_fts" not in name
        }


def columns(path: Path) -> dict[str, set[tuple[object, ...]]]:
    """Each table's columns, and what else the database has, by name."""
    with closing(sqlite3.connect(path)) as conn:
        made = conn.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        tables = {
            name: conn.execute(f'PRAGMA table_info("{name}")').fetchall()
            for kind, name in made
            if kind in ("table", "view")
        }
        by_table = {name: {tuple(row[1:]) for row in rows} for name, rows in tables.items() if "_fts_" not in name}
        return {**by_table, "all": set(made)}


def test_the_revision_that_a_start_looks_for_is_the_newest_and_what_a_new_database_has(tmp_path: Path) -> None:
    path = tmp_path / "corral.db"
    assert ScriptDirectory.from_config(alembic_config(path)).get_current_head() == HEAD
    open_schema(path)
    assert path.stat().st_mode & 0o077 == 0
    database = Database(path)
    assert database.read(schema_of) == HEAD
    database.close()


def test_a_stored_database_opens_with_all_its_rows_and_has_what_a_new_one_has(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    stored(old, "0017")
    before = rows(old)
    assert len([name for name, rows in before.items() if rows]) > 20 and len(before["audit_lines"]) > 100
    open_schema(old)
    open_schema(new)
    names = (
        "check_receipt_id",
        "clashes_on_sha",
        "suspect_at",
        "reverts",
        "skipped_at",
        "bypassed_sha",
        "bypass_reason",
        "landed_tip_sha",
        "style",
    )
    fresh = tuple((name, None) for name in names)
    assert rows(old) == {
        **before,
        "alembic_version": [(("version_num", HEAD),)],
        "merge_requests": [tuple(sorted((*row, *fresh), key=str)) for row in before["merge_requests"]],
        "worktrees": [tuple(sorted((*row, ("stacked_on", None)), key=str)) for row in before["worktrees"]],
        "task_dependencies": [
            tuple(sorted((*row, ("clashes_sha", None)), key=str)) for row in before["task_dependencies"]
        ],
        "receipts": [tuple(sorted((*row, ("failed_tests", None)), key=str)) for row in before["receipts"]],
        "message_recipients": [tuple(sorted((*row, ("way", None)), key=str)) for row in before["message_recipients"]],
        "verification_runs": [],
        "landing_targets": [],
        "flakes": [],
        "landing_remotes": [],
        "branch_pushes": [],
        "target_freezes": [],
        "direct_tips": [],
    }
    assert columns(old) == columns(new)
    database = Database(old)
    database.write(lambda conn: receipts.add(conn, tree="t", fingerprint="f", status=ReceiptStatus.BYPASSED, now=NOW))
    assert database.read(lambda conn: search.matching(conn, "messages", "minutes"))
    assert database.read(events.newest) == len(before["events"])
    with pytest.raises(IntegrityError, match="append-only"):
        database.write(lambda conn: conn.execute(text("UPDATE audit_lines SET result = 'x'")))
    database.close()


@pytest.mark.filterwarnings("ignore:.*expression-based index")
def test_a_stored_database_has_what_the_tables_say_when_it_is_open(tmp_path: Path) -> None:
    stored(tmp_path / "corral.db", "0017")
    open_schema(tmp_path / "corral.db")
    engine = create_engine(f"sqlite:///{tmp_path / 'corral.db'}")
    with engine.connect() as conn:
        is_table = {"include_object": lambda _, name, *__: "_fts" not in str(name)}  # see store/engine/search.py
        context = MigrationContext.configure(conn, opts={"compare_type": True, "render_as_batch": True, **is_table})
        # Expression indexes cannot be read back from SQLite; everything else must match.
        differences = [
            difference for difference in compare_metadata(context, metadata) if "priority" not in str(difference)
        ]
    engine.dispose()
    assert differences == []


def test_a_database_from_before_the_first_release_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "corral.db"
    stored(path, "0017")
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("UPDATE alembic_version SET version_num = '0016'")
    before = path.read_bytes()
    with pytest.raises(DatabaseUnavailable, match="never released") as refusal:
        open_schema(path)
    assert "0016" in refusal.value.cause and "mv " in refusal.value.remedy
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["corral.db"]


def test_the_tables_are_made_in_postgresql_too(postgresql: Engine) -> None:
    with postgresql.connect() as conn:
        assert schema_of(conn) == HEAD
        opts = {"compare_type": True, "include_object": lambda _, name, *__: not str(name).endswith("_fts")}
        context = MigrationContext.configure(conn, opts=opts)
        assert {schema_coordination.messages.name, schema_project.alerts.name} <= set(metadata.tables)
        assert compare_metadata(context, metadata) == []
        query = "SELECT indexname FROM pg_indexes WHERE indexdef LIKE 'CREATE UNIQUE % WHERE %removed%'"
        live = {str(row[0]) for row in conn.execute(text(query))}
    assert live == {"uq_worktrees_live_name", "uq_worktrees_live_port"}
