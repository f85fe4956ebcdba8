"""attempts have rows of their own: session, lease, worktree, process, progress and usage leave the tasks

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from corral.store.migrations.partial import create_partial_index

revision = "0006"
down_revision = "0005"

MOVED = (
    "session_id", "lease_expires_at", "worktree_id", "branch", "base_sha", "head_sha", "pid", "pid_started", "progress",
    "progress_at", "usage", "started_at",
)  # fmt: skip
INDEXES: dict[str, list[Any]] = {
    "ix_tasks_status_not_before_at": ["status", "not_before_at"],
    "ix_tasks_status_priority_seq": ["status", sa.literal_column("priority DESC"), "seq"],
    "ix_tasks_thread_id_seq": ["thread_id", "seq"],
}
OWNED = "status <> 'running' OR (current_attempt IS NOT NULL AND current_attempt = fencing_token)"
OUTCOMES = {
    "completed": "completed",
    "cancelled": "cancelled",
    "failed": "failed",
    "dead": "failed",
    "interrupted": "interrupted",
}


def upgrade() -> None:
    _create()
    conn = op.get_bind()
    conn.execute(sa.text("ALTER TABLE tasks ADD COLUMN current_attempt INTEGER"))
    columns = ", ".join(
        ("task_id", "fencing_token", "status", "error_code", "error_message", "created_at", "completed_at", *MOVED)
    )
    query = f"SELECT {columns} FROM tasks WHERE fencing_token > 0 AND session_id IS NOT NULL"
    rows = [_newest_attempt(dict(row)) for row in conn.execute(sa.text(query)).mappings()]
    names = ("task_id", "number", "claimed_at", "ended_at", "outcome", "error_code", "error_message", *MOVED)
    places = ", ".join(f":{name}" for name in names)
    if rows:
        conn.execute(sa.text(f"INSERT INTO attempts ({', '.join(names)}) VALUES ({places})"), rows)
        current = "UPDATE tasks SET current_attempt = :number WHERE task_id = :task_id"
        conn.execute(sa.text(current), [{name: row[name] for name in ("number", "task_id")} for row in rows])
    _keep_claim_keys(conn)
    _drop_columns()


def _newest_attempt(row: dict[str, Any]) -> dict[str, Any]:
    """The newest attempt at a task: of earlier ones only events are left."""
    is_open = row["status"] == "running"
    outcome = None if is_open else OUTCOMES.get(row["status"], "failed" if row["error_code"] else "interrupted")
    usage = row["usage"] if isinstance(row["usage"], str) else json.dumps(row["usage"])
    return {
        **row,
        "number": row["fencing_token"],
        "usage": usage,
        "claimed_at": row["started_at"] or row["created_at"],
        "ended_at": None if is_open else row["completed_at"] or row["started_at"] or row["created_at"],
        "outcome": outcome,
        "error_code": None if is_open else row["error_code"],
        "error_message": None if is_open else row["error_message"],
    }


def _keep_claim_keys(conn: sa.Connection) -> None:
    """A claim that is said again after the upgrade, because its answer was lost, still gets the same task."""
    query = (
        "SELECT e.task_id, e.session_id, e.data FROM events e JOIN attempts a ON a.task_id = e.task_id"
        " WHERE e.kind = 'task.claimed' AND a.ended_at IS NULL"
    )
    for task_id, session_id, data in conn.execute(sa.text(query)).all():
        claim = json.loads(data) if isinstance(data, str) else data
        if claim.get("key"):
            values = {"key": claim["key"], "task": task_id, "number": claim["token"], "session": session_id}
            mine = "task_id = :task AND number = :number AND session_id = :session"
            conn.execute(sa.text(f"UPDATE attempts SET claim_key = :key WHERE {mine}"), values)


def _create() -> None:
    outcomes = "'completed', 'failed', 'faulted', 'cancelled', 'interrupted', 'returned'"
    op.create_table(
        "attempts",
        sa.Column("task_id", sa.String(length=36), sa.ForeignKey("tasks.task_id"), primary_key=True),
        sa.Column("number", sa.Integer(), autoincrement=False, primary_key=True),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("claim_key", sa.String(length=128), nullable=True),
        sa.Column("agent", sa.String(length=128), nullable=True),
        sa.Column("runner", sa.String(length=16), nullable=True),
        sa.Column("model", sa.String(length=128), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", sa.String(length=24), nullable=True),
        sa.Column("worktree_id", sa.String(length=36), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("base_sha", sa.String(length=64), nullable=True),
        sa.Column("head_sha", sa.String(length=64), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("pid_started", sa.Float(), nullable=True),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("progress_at", sa.String(length=24), nullable=True),
        sa.Column("usage", sa.JSON(), nullable=False),
        sa.Column("claimed_at", sa.String(length=24), nullable=False),
        sa.Column("started_at", sa.String(length=24), nullable=True),
        sa.Column("ended_at", sa.String(length=24), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.CheckConstraint(f"outcome IS NULL OR outcome IN ({outcomes})", name="outcome"),
        sa.CheckConstraint("(ended_at IS NULL) = (outcome IS NULL)", name="ended"),
        sa.CheckConstraint("(ended_at IS NULL) = (lease_expires_at IS NOT NULL)", name="leased"),
        sqlite_with_rowid=False,
    )
    create_partial_index("uq_attempts_open", "attempts", ["task_id"], "ended_at IS NULL", unique=True)
    create_partial_index("ix_attempts_open_session_id", "attempts", ["session_id"], "ended_at IS NULL")


def _drop_columns() -> None:
    for name in INDEXES:  # one of them is by an expression, which is not reflected where a table is written again
        op.drop_index(name, "tasks")
    with op.batch_alter_table("tasks") as batch:
        for name in ("leased", "owned"):
            batch.drop_constraint(op.f(f"ck_tasks_{name}"), type_="check")
        for name in MOVED:
            batch.drop_column(name)
    with op.batch_alter_table("tasks") as batch:
        batch.create_check_constraint(op.f("ck_tasks_owned"), sa.text(OWNED))
    for name, columns in INDEXES.items():
        op.create_index(name, "tasks", columns)
