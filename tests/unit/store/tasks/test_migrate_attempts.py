"""Tasks of an older database: the newest attempt at each gets its row, and a claim that is repeated finds its task."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

from alembic import command

from corral.store.engine.database import Database
from corral.store.migrate import alembic_config, open_schema
from corral.store.tasks import attempts, tasks

AT, LATER = "2026-11-21T00:00:00.000Z", "2026-11-21T01:00:00.000Z"
OLD = (
    # task, status, session, token, lease, error code, completed
    ("fresh", "pending", None, 0, None, None, None),
    ("claimed", "running", "ann", 2, LATER, None, None),
    ("done", "completed", "ben", 1, None, None, LATER),
    ("broken", "failed", "ben", 3, None, "timeout", LATER),
    ("stopped", "interrupted", "ben", 1, None, "daemon_died", None),
    ("offered", "pending", None, 1, None, None, None),
)


def test_the_newest_attempt_of_each_task_gets_its_row(tmp_path: Path) -> None:
    path = tmp_path / "corral.db"
    command.upgrade(alembic_config(path), "0005")
    with contextlib.closing(sqlite3.connect(path)) as conn:
        for task_id, status, session_id, token, lease, error, completed in OLD:
            conn.execute(
                "INSERT INTO tasks (task_id, task_type, title, status, priority, limits, max_retries, attempts, branch, pid,"
                " ignore_dependency_failure, fencing_token, usage, created_at, started_at, session_id, lease_expires_at,"
                " error_code, completed_at) VALUES (?, 'task', 't', ?, 5, '{}', 0, 0, 'work', 7, 0, ?, ?, ?, ?, ?, ?, ?, ?)",
                (task_id, status, token, json.dumps({"turns": token}), AT, AT, session_id, lease, error, completed),
            )
        claim = json.dumps({"attempt": 1, "token": 2, "key": "again"})
        conn.execute(
            "INSERT INTO events (at, kind, task_id, session_id, data) VALUES (?, 'task.claimed', 'claimed', 'ann', ?)",
            (AT, claim),
        )
        conn.commit()
    open_schema(path)
    database = Database(path)
    try:
        rows = {task_id: database.read(lambda conn, one=task_id: tasks.get(conn, one)) for task_id, *_ in OLD}
        made = {task_id: database.read(lambda conn, one=task_id: attempts.of_task(conn, one)) for task_id, *_ in OLD}
        again = database.read(lambda conn: tasks.claimed_with(conn, "ann", "again"))
        other = database.read(lambda conn: tasks.claimed_with(conn, "ben", "again"))
    finally:
        database.close()
    assert {task_id: [(one["number"], one["outcome"]) for one in made[task_id]] for task_id in made} == {
        "fresh": [],
        "claimed": [(2, None)],
        "done": [(1, "completed")],
        "broken": [(3, "failed")],
        "stopped": [(1, "interrupted")],
        "offered": [],
    }
    running, offered = rows["claimed"], rows["offered"]
    assert running and (running["session_id"], running["branch"], running["pid"]) == ("ann", "work", 7)
    assert running["lease_expires_at"] == LATER and made["claimed"][0]["usage"] == {"turns": 2}
    assert offered and (offered["session_id"], offered["fencing_token"]) == (None, 1)
    assert again is not None and again["task_id"] == "claimed" and other is None
