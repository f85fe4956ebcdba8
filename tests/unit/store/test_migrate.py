"""The schema: the revision that is named is the newest there is."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from datetime import datetime, timezone
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

from corral.coordination.mail import mailbox, messages
from corral.coordination.mail.addresses import Identity
from corral.coordination.mail.messages import Letter
from corral.models.instants import iso
from corral.store import schema_coordination, schema_project, totals
from corral.store.engine.database import Database
from corral.store.engine.inspection import schema_of
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
    assert sorted(spelled(old)) == sorted(spelled(new)), "the upgrade writes tables first"
    assert (tmp_path / f"old.db.before-{HEAD}").exists()


def test_mail_of_an_older_database_is_there_and_what_was_sent_under_a_key_stays_known(tmp_path: Path) -> None:
    path, now = tmp_path / "corral.db", datetime(2026, 11, 21, tzinfo=timezone.utc)
    letter = Letter("Hello", "How are you?", to=("Ben",), idempotency_key="k")
    sent = [
        {"seq": 1, "message_id": "one", "data": {"paths": ["a"]}, "idempotency_key": None},
        {"seq": 2, "message_id": "two", "data": {"digest": letter.digest}, "idempotency_key": "k"},
    ]
    command.upgrade(alembic_config(path), "0002")
    with contextlib.closing(sqlite3.connect(path)) as conn:
        for session_id, name in (("a", "Ann"), ("b", "Ben")):
            values = (session_id, name, "claude", "active", "[]", iso(now), iso(now))
            columns = "session_id, agent_name, agent_type, status, capabilities, started_at, last_heartbeat"
            conn.execute(f"INSERT INTO agent_sessions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        for row in sent:
            common = "'one', 'a', 'Ann', 'message', 'Hello', 'How are you?', 'normal', 0, '[]'"
            columns = (
                "thread_id, sender_session_id, sender_name, kind, subject, body, importance, ack_required, attachments"
            )
            conn.execute(
                f"INSERT INTO messages ({columns}, seq, message_id, data, idempotency_key, created_at)"
                f" VALUES ({common}, ?, ?, ?, ?, ?)",
                (row["seq"], row["message_id"], json.dumps(row["data"]), row["idempotency_key"], iso(now)),
            )
            receipt = ("b", row["seq"], row["message_id"], "Ben", "to", iso(now))
            columns = "session_id, seq, message_id, name, role, injected_at"
            conn.execute(f"INSERT INTO message_recipients ({columns}) VALUES (?, ?, ?, ?, ?, ?)", receipt)
        conn.commit()
    open_schema(path)
    database = Database(path)
    mail = database.read(lambda conn: list(mailbox.inbox(conn, "b")))
    assert [(row["message_id"], row["data"], row["state"]) for row in mail] == [
        ("two", {}, "injected"),
        ("one", {"paths": ["a"]}, "injected"),
    ]
    again = database.write(lambda conn: messages.send(conn, Identity("a", "Ann"), letter, now))
    assert (again.replayed, again.message["message_id"]) == (True, "two")
    assert [one["name"] for one in again.recipients] == ["Ben"]
    database.close()


def test_the_totals_of_an_older_database_are_those_of_what_it_still_holds(tmp_path: Path) -> None:
    path, now = tmp_path / "corral.db", iso(datetime(2026, 11, 21, tzinfo=timezone.utc))
    command.upgrade(alembic_config(path), "0015")
    tasks = [
        ("done", "completed", "coder", None, None), ("dead", "dead", None, "command", "timeout"),
        ("off", "cancelled", None, None, None), ("open", "pending", None, "command", None),
    ]  # fmt: skip
    usage = {"done": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}, "open": {"input_tokens": 7}, "dead": {}}
    with contextlib.closing(sqlite3.connect(path)) as conn:
        for task_id, status, agent, runner, code in tasks:
            over = None if status == "pending" else now
            conn.execute(
                "INSERT INTO tasks (task_id, task_type, title, status, priority, limits, max_retries, retries_chosen, attempts,"
                " crashes, faults, ignore_dependency_failure, fencing_token, current_attempt, created_at, agent, runner,"
                " error_code, completed_at) VALUES (?, 't', 't', ?, 5, '{}', 0, 0, 1, 0, 0, 0, 2, 2, ?, ?, ?, ?, ?)",
                (task_id, status, now, agent, runner, code, over),
            )
            for number in (1, 2) if task_id in usage else ():
                values = (task_id, number, json.dumps(usage[task_id]), now, now)
                columns = "task_id, number, usage, claimed_at, ended_at, session_id, outcome"
                conn.execute(f"INSERT INTO attempts ({columns}) VALUES (?, ?, ?, ?, ?, 's', 'failed')", values)
        for kind in ("task.retried", "task.retried", "merge.failed", "task.failed"):
            conn.execute("INSERT INTO events (at, kind, data) VALUES (?, ?, '{}')", (now, kind))
        conn.commit()
    open_schema(path)
    database = Database(path)
    found = {tuple(row.values())[:3]: row["number"] for row in database.read(totals.every)}
    database.close()
    assert found == {
        ("tasks_finished", "coder", "completed"): 1, ("tasks_finished", "command", "failed"): 1,
        ("tasks_finished", "session", "cancelled"): 1, ("task_failures", "timeout", ""): 1,
        ("tokens", "coder", ""): 30, ("tokens", "command", ""): 14,
        ("cost_usd", "coder", ""): 1.0, ("cost_usd", "command", ""): 0,
        ("retries", "", ""): 2, ("evictions", "", ""): 1,
    }  # fmt: skip


def test_the_migrations_make_the_schema_in_postgresql_too(postgresql: Engine) -> None:
    with postgresql.connect() as conn:
        assert schema_of(conn) == HEAD
        opts = {"compare_type": True, "include_object": lambda _, name, *__: not str(name).endswith("_fts")}
        context = MigrationContext.configure(conn, opts=opts)
        assert schema_coordination.metadata is schema_project.metadata, "the tables of both are known"
        assert compare_metadata(context, schema_project.metadata) == []
        query = "SELECT indexname FROM pg_indexes WHERE indexdef LIKE 'CREATE UNIQUE % WHERE %removed%'"
        live = {str(row[0]) for row in conn.execute(text(query))}
    assert live == {"uq_worktrees_live_name", "uq_worktrees_live_port"}
