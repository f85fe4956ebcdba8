"""Merge requests of an older database: linked to their tasks, and one open request for a branch and its target."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

from alembic import command

from corral.store.migrate import alembic_config, open_schema

AT = "2026-11-21T00:00:00.000Z"


def test_requests_of_an_older_database_find_their_tasks_and_only_the_newest_of_a_branch_stays_open(
    tmp_path: Path,
) -> None:
    path = tmp_path / "corral.db"
    command.upgrade(alembic_config(path), "0004")
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.execute(
            "INSERT INTO tasks (task_id, task_type, title, status, priority, limits, max_retries, attempts,"
            " ignore_dependency_failure, fencing_token, usage, created_at)"
            f" VALUES ('t', 'task', 't', 'pending', 5, '{{}}', 0, 0, 0, 0, '{{}}', '{AT}')"
        )
        conn.execute(
            "INSERT INTO worktrees (worktree_id, name, path, branch, base_sha, purpose, state, task_id, provision, created_at)"
            f" VALUES ('w', 'w', '/w', 'work', 'a', 'task', 'ready', 't', '{{}}', '{AT}')"
        )
        for merge_id, branch in (("old", "work"), ("new", "work"), ("landing", "side"), ("next", "side")):
            conn.execute(
                "INSERT INTO merge_requests (merge_id, title, priority, branch, target, head_sha, state, tries, created_at,"
                f" updated_at) VALUES (?, 'x', 5, ?, 'main', 'a', 'queued', 0, '{AT}', '{AT}')",
                (merge_id, branch),
            )
        conn.execute(
            f"INSERT INTO landing_intents VALUES ('main', 'a', 'b', '{json.dumps(['landing'])}', '{AT}', NULL)"
        )
        conn.commit()
    open_schema(path)
    with contextlib.closing(sqlite3.connect(path)) as conn:
        rows = conn.execute("SELECT merge_id, task_id, state, replaced_by FROM merge_requests ORDER BY seq").fetchall()
    assert rows == [
        ("old", "t", "superseded", "new"),
        ("new", "t", "queued", None),
        ("landing", None, "queued", "next"),
        ("next", None, "queued", None),
    ]
