"""the first schema

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from corral.store.migrations.partial import create_partial_index

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "agent_sessions",
        sa.Column("session_id", sa.String(length=128), primary_key=True),
        sa.Column("agent_name", sa.String(length=128), nullable=False, unique=True),
        sa.Column("agent_type", sa.String(length=64), nullable=False),
        sa.Column("parent_session_id", sa.String(length=128), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("waiting_for", sa.Text(), nullable=True),
        sa.Column("unguarded_since_at", sa.String(length=24), nullable=True),
        sa.Column("capabilities", sa.JSON(), nullable=False),
        sa.Column("current_task", sa.Text(), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("worktree", sa.Text(), nullable=True),
        sa.Column("cwd", sa.Text(), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("client_pid", sa.Integer(), nullable=True),
        sa.Column("client_started", sa.Float(), nullable=True),
        sa.Column("entrypoint", sa.String(length=64), nullable=True),
        sa.Column("last_words", sa.Text(), nullable=True),
        sa.Column("started_at", sa.String(length=24), nullable=False),
        sa.Column("last_heartbeat", sa.String(length=24), nullable=False),
        sa.Column("ended_at", sa.String(length=24), nullable=True),
        sa.Column("end_reason", sa.String(length=64), nullable=True),
        sa.CheckConstraint("(status = 'disconnected') = (ended_at IS NOT NULL)", name="ended"),
        sa.CheckConstraint("status IN ('active', 'idle', 'disconnected')", name="status"),
    )
    op.create_index("ix_agent_sessions_status_last_heartbeat", "agent_sessions", ["status", "last_heartbeat"])
    op.create_table(
        "events",
        sa.Column("event_id", sa.Integer(), autoincrement=True, primary_key=True),
        sa.Column("at", sa.String(length=24), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("session_id", sa.String(length=128), nullable=True),
        sa.Column("merge_id", sa.String(length=36), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
    )
    op.create_index("ix_events_at", "events", ["at"])
    op.create_index("ix_events_task_id", "events", ["task_id"])
    op.create_table(
        "landing_intents",
        sa.Column("target", sa.Text(), primary_key=True),
        sa.Column("old_sha", sa.String(length=64), nullable=False),
        sa.Column("new_sha", sa.String(length=64), nullable=False),
        sa.Column("merge_ids", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(length=24), nullable=False),
    )
    op.create_table(
        "receipts",
        sa.Column("receipt_id", sa.String(length=36), primary_key=True),
        sa.Column("tree", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("commands", sa.JSON(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("tests", sa.Integer(), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("log", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("status <> 'passed' OR (exit_code = 0 AND (tests IS NULL OR tests > 0))", name="green"),
        sa.CheckConstraint("status IN ('passed', 'failed', 'unverified', 'error')", name="status"),
    )
    op.create_index("ix_receipts_tree_fingerprint", "receipts", ["tree", "fingerprint"])
    op.create_table(
        "tasks",
        sa.Column("seq", sa.Integer(), autoincrement=True, primary_key=True),
        sa.Column("task_id", sa.String(length=36), nullable=False, unique=True),
        sa.Column("task_type", sa.String(length=64), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("runner", sa.String(length=16), nullable=True),
        sa.Column("command", sa.Text(), nullable=True),
        sa.Column("prompt", sa.Text(), nullable=True),
        sa.Column("input_data", sa.JSON(), nullable=True),
        sa.Column("submitted_by", sa.String(length=128), nullable=True),
        sa.Column("author_name", sa.Text(), nullable=True),
        sa.Column("author_email", sa.Text(), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("timeout_s", sa.Float(), nullable=True),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("max_retries", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("ignore_dependency_failure", sa.Boolean(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=128), nullable=True, unique=True),
        sa.Column("session_id", sa.String(length=128), nullable=True),
        sa.Column("fencing_token", sa.Integer(), nullable=False),
        sa.Column("lease_expires_at", sa.String(length=24), nullable=True),
        sa.Column("not_before_at", sa.String(length=24), nullable=True),
        sa.Column("worktree_id", sa.String(length=36), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("base_sha", sa.String(length=64), nullable=True),
        sa.Column("head_sha", sa.String(length=64), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("pid_started", sa.Float(), nullable=True),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("progress_at", sa.String(length=24), nullable=True),
        sa.Column("cancel_reason", sa.Text(), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("usage", sa.JSON(), nullable=False),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("started_at", sa.String(length=24), nullable=True),
        sa.Column("completed_at", sa.String(length=24), nullable=True),
        sa.CheckConstraint("(status = 'running') = (lease_expires_at IS NOT NULL)", name="leased"),
        sa.CheckConstraint(
            "(status IN ('completed', 'failed', 'cancelled', 'dead')) = (completed_at IS NOT NULL)", name="completed"
        ),
        sa.CheckConstraint("runner IS NULL OR runner IN ('command', 'claude')", name="runner"),
        sa.CheckConstraint("status <> 'running' OR session_id IS NOT NULL", name="owned"),
        sa.CheckConstraint(
            "status IN ('waiting', 'pending', 'running', 'completed', 'failed', 'cancelled', 'interrupted', 'dead')",
            name="status",
        ),
        sa.CheckConstraint("status NOT IN ('failed', 'dead') OR error_code IS NOT NULL", name="explained"),
        sa.CheckConstraint("attempts >= 0 AND max_retries >= 0", name="attempts"),
        sa.CheckConstraint("priority BETWEEN 0 AND 10", name="priority"),
    )
    op.create_index("ix_tasks_status_not_before_at", "tasks", ["status", "not_before_at"])
    op.create_index("ix_tasks_status_priority_seq", "tasks", ["status", sa.literal_column("priority DESC"), "seq"])
    op.create_table(
        "worktrees",
        sa.Column("worktree_id", sa.String(length=36), primary_key=True),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("base_sha", sa.String(length=64), nullable=False),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("session_id", sa.String(length=128), nullable=True),
        sa.Column("port_base", sa.Integer(), nullable=True),
        sa.Column("provision", sa.JSON(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("salvage_ref", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("removed_at", sa.String(length=24), nullable=True),
        sa.CheckConstraint("(state = 'removed') = (removed_at IS NOT NULL)", name="removed"),
        sa.CheckConstraint("purpose IN ('task', 'session', 'verify', 'person')", name="purpose"),
        sa.CheckConstraint("state = 'removed' OR purpose = 'verify' OR branch IS NOT NULL", name="branch"),
        sa.CheckConstraint("state IN ('allocating', 'ready', 'reclaiming', 'removed')", name="state"),
    )
    create_partial_index("uq_worktrees_live_name", "worktrees", ["name"], "state != 'removed'", unique=True)
    create_partial_index("uq_worktrees_live_port", "worktrees", ["port_base"], "state != 'removed'", unique=True)
    op.create_table(
        "file_locks",
        sa.Column("lock_id", sa.String(length=36), primary_key=True),
        sa.Column("file_path", sa.Text(), nullable=False),
        sa.Column("match_key", sa.Text(), nullable=False),
        sa.Column("is_pattern", sa.Boolean(), nullable=False),
        sa.Column("checkout", sa.Text(), nullable=False),
        sa.Column("session_id", sa.String(length=128), sa.ForeignKey("agent_sessions.session_id"), nullable=False),
        sa.Column("exclusive", sa.Boolean(), nullable=False),
        sa.Column("automatic", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("ttl_s", sa.Float(), nullable=False),
        sa.Column("acquired_at", sa.String(length=24), nullable=False),
        sa.Column("expires_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("ttl_s > 0", name="ttl"),
        sa.UniqueConstraint(
            "session_id", "match_key", "checkout", name=op.f("uq_file_locks_session_id_match_key_checkout")
        ),
    )
    op.create_index("ix_file_locks_expires_at", "file_locks", ["expires_at"])
    op.create_index("ix_file_locks_is_pattern", "file_locks", ["is_pattern"])
    op.create_index("ix_file_locks_match_key", "file_locks", ["match_key"])
    op.create_table(
        "merge_requests",
        sa.Column("seq", sa.Integer(), autoincrement=True, primary_key=True),
        sa.Column("merge_id", sa.String(length=36), nullable=False, unique=True),
        sa.Column("task_id", sa.String(length=36), sa.ForeignKey("tasks.task_id"), nullable=True),
        sa.Column("session_id", sa.String(length=128), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("base_sha", sa.String(length=64), nullable=True),
        sa.Column("head_sha", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("conflicts", sa.JSON(), nullable=True),
        sa.Column("candidate_sha", sa.String(length=64), nullable=True),
        sa.Column("candidate_tree", sa.String(length=64), nullable=True),
        sa.Column("tip_sha", sa.String(length=64), nullable=True),
        sa.Column("receipt_id", sa.String(length=36), sa.ForeignKey("receipts.receipt_id"), nullable=True),
        sa.Column("landed_sha", sa.String(length=64), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("not_before_at", sa.String(length=24), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("updated_at", sa.String(length=24), nullable=False),
        sa.Column("finished_at", sa.String(length=24), nullable=True),
        sa.CheckConstraint("(state = 'landed') = (landed_sha IS NOT NULL)", name="landed"),
        sa.CheckConstraint("(state IN ('queued', 'verifying', 'held')) = (finished_at IS NULL)", name="finished"),
        sa.CheckConstraint("state <> 'landed' OR receipt_id IS NOT NULL", name="receipt"),
        sa.CheckConstraint(
            "state IN ('queued', 'verifying', 'held', 'landed', 'conflict', 'failed', 'superseded', 'cancelled')",
            name="state",
        ),
        sa.CheckConstraint("state NOT IN ('conflict', 'failed', 'held') OR reason IS NOT NULL", name="explained"),
    )
    op.create_index("ix_merge_requests_state_seq", "merge_requests", ["state", "seq"])
    op.create_index("ix_merge_requests_task_id", "merge_requests", ["task_id"])
    op.create_table(
        "notices",
        sa.Column("notice_id", sa.Integer(), autoincrement=True, primary_key=True),
        sa.Column("session_id", sa.String(length=128), sa.ForeignKey("agent_sessions.session_id"), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("injected_at", sa.String(length=24), nullable=True),
    )
    op.create_index("ix_notices_session_id_injected_at", "notices", ["session_id", "injected_at"])
    op.create_table(
        "task_claims",
        sa.Column("task_id", sa.String(length=36), sa.ForeignKey("tasks.task_id"), primary_key=True),
        sa.Column("claim", sa.Text(), primary_key=True),
    )
    op.create_table(
        "task_dependencies",
        sa.Column("task_id", sa.String(length=36), sa.ForeignKey("tasks.task_id"), primary_key=True),
        sa.Column("depends_on", sa.String(length=36), sa.ForeignKey("tasks.task_id"), primary_key=True),
        sa.CheckConstraint("task_id <> depends_on", name="not_self"),
    )
    op.create_index("ix_task_dependencies_depends_on", "task_dependencies", ["depends_on"])
