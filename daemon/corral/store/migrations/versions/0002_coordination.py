"""what sessions tell each other: names, messages, handoffs, features, memory, lock waits; more of a task

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from corral.store.engine.search import create_indexes
from corral.store.migrations.partial import create_partial_index

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "features",
        sa.Column("feature_id", sa.String(length=128), primary_key=True),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("registered_by", sa.String(length=128), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("updated_at", sa.String(length=24), nullable=False),
        sa.Column("ended_at", sa.String(length=24), nullable=True),
        sa.CheckConstraint("(status = 'active') = (ended_at IS NULL)", name="ended"),
        sa.CheckConstraint("status IN ('active', 'completed', 'cancelled')", name="status"),
    )
    op.create_index("ix_features_status", "features", ["status"])
    op.create_table(
        "agent_names",
        sa.Column("folded", sa.String(length=128), primary_key=True),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("session_id", sa.String(length=128), sa.ForeignKey("agent_sessions.session_id"), nullable=False),
        sa.Column("program", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("task_description", sa.Text(), nullable=True),
        sa.Column("registered_at", sa.String(length=24), nullable=False),
    )
    op.create_index("ix_agent_names_session_id", "agent_names", ["session_id"])
    op.create_table(
        "event_cursors",
        sa.Column("reader", sa.String(length=32), primary_key=True),
        sa.Column("event_id", sa.Integer(), nullable=False),
    )
    # What happened before there were messages is told to nobody.
    op.execute("INSERT INTO event_cursors SELECT 'announcements', COALESCE(MAX(event_id), 0) FROM events")
    op.create_table(
        "feature_claims",
        sa.Column("feature_id", sa.String(length=128), sa.ForeignKey("features.feature_id"), primary_key=True),
        sa.Column("claim", sa.Text(), primary_key=True),
        sa.Column("match_key", sa.Text(), nullable=False),
        sa.Column("is_pattern", sa.Boolean(), nullable=False),
    )
    op.create_table(
        "handoffs",
        sa.Column("seq", sa.Integer(), autoincrement=True, primary_key=True),
        sa.Column("handoff_id", sa.String(length=36), nullable=False, unique=True),
        sa.Column("session_id", sa.String(length=128), sa.ForeignKey("agent_sessions.session_id"), nullable=False),
        sa.Column("agent_name", sa.String(length=128), nullable=False),
        sa.Column("automatic", sa.Boolean(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("completed_work", sa.JSON(), nullable=False),
        sa.Column("in_progress", sa.JSON(), nullable=False),
        sa.Column("decisions", sa.JSON(), nullable=False),
        sa.Column("next_steps", sa.JSON(), nullable=False),
        sa.Column("relevant_files", sa.JSON(), nullable=False),
        sa.Column("worktree", sa.Text(), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
    )
    op.create_index("ix_handoffs_agent_name_seq", "handoffs", ["agent_name", "seq"])
    op.create_index("ix_handoffs_session_id", "handoffs", ["session_id"])
    op.create_index("ix_handoffs_worktree_seq", "handoffs", ["worktree", "seq"])
    # Columns that change often are in as few indexes as possible: each costs a page more per commit.
    op.drop_index("ix_events_at", "events")
    op.drop_index("ix_events_task_id", "events")
    create_partial_index("ix_events_task_id", "events", ["task_id"], "task_id IS NOT NULL")
    op.drop_index("ix_file_locks_is_pattern", "file_locks")
    sqlite_globs, postgresql_globs = sa.text("is_pattern IS 1"), sa.text("is_pattern IS true")
    op.create_index(
        "ix_file_locks_globs",
        "file_locks",
        ["expires_at"],
        sqlite_where=sqlite_globs,
        postgresql_where=postgresql_globs,
    )
    op.drop_index("ix_agent_sessions_status_last_heartbeat", "agent_sessions")
    op.create_index("ix_agent_sessions_status", "agent_sessions", ["status"])
    op.create_index("ix_events_session_id", "events", ["session_id"])
    op.create_index("ix_merge_requests_branch_seq", "merge_requests", ["branch", "seq"])
    op.create_index("ix_agent_sessions_parent_session_id", "agent_sessions", ["parent_session_id"])
    op.create_table(
        "lock_waits",
        sa.Column("seq", sa.Integer(), autoincrement=True, primary_key=True),
        sa.Column("wait_id", sa.String(length=36), nullable=False, unique=True),
        sa.Column("session_id", sa.String(length=128), sa.ForeignKey("agent_sessions.session_id"), nullable=False),
        sa.Column("keys", sa.JSON(), nullable=False),
        sa.Column("exclusive", sa.Boolean(), nullable=False),
        sa.Column("ttl_s", sa.Float(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("expires_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("ttl_s > 0", name="ttl"),
    )
    op.create_table(
        "memories",
        sa.Column("seq", sa.Integer(), autoincrement=True, primary_key=True),
        sa.Column("memory_id", sa.String(length=36), nullable=False, unique=True),
        sa.Column("session_id", sa.String(length=128), sa.ForeignKey("agent_sessions.session_id"), nullable=True),
        sa.Column("agent_name", sa.String(length=128), nullable=False),
        sa.Column("event_type", sa.String(length=32), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("lessons", sa.JSON(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("seen_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("times > 0", name="times"),
    )
    op.create_index("ix_memories_digest_seen_at", "memories", ["digest", "seen_at"])
    op.create_index("ix_memories_seen_at_seq", "memories", ["seen_at", "seq"])
    op.create_index("ix_memories_event_type_seen_at_seq", "memories", ["event_type", "seen_at", "seq"])
    op.create_table(
        "messages",
        sa.Column("seq", sa.Integer(), autoincrement=True, primary_key=True),
        sa.Column("message_id", sa.String(length=36), nullable=False, unique=True),
        sa.Column("thread_id", sa.String(length=128), nullable=False),
        sa.Column("reply_to", sa.String(length=36), nullable=True),
        sa.Column(
            "sender_session_id", sa.String(length=128), sa.ForeignKey("agent_sessions.session_id"), nullable=True
        ),
        sa.Column("sender_name", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("importance", sa.String(length=8), nullable=False),
        sa.Column("ack_required", sa.Boolean(), nullable=False),
        sa.Column("attachments", sa.JSON(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=128), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("importance IN ('low', 'normal', 'high', 'urgent')", name="importance"),
    )
    keyed = ["sender_session_id", "idempotency_key"]
    create_partial_index("uq_messages_idempotency_key", "messages", keyed, "idempotency_key IS NOT NULL", unique=True)
    op.create_index("ix_messages_sender_session_id_seq", "messages", ["sender_session_id", "seq"])
    op.create_index("ix_messages_thread_id_seq", "messages", ["thread_id", "seq"])
    op.create_table(
        "memory_tags",
        sa.Column("seq", sa.Integer(), sa.ForeignKey("memories.seq"), primary_key=True),
        sa.Column("tag", sa.String(length=128), primary_key=True),
        sa.Column("seen_at", sa.String(length=24), nullable=False),
    )
    op.create_index("ix_memory_tags_tag_seen_at_seq", "memory_tags", ["tag", "seen_at", "seq"])
    op.create_table(
        "message_recipients",
        sa.Column("session_id", sa.String(length=128), sa.ForeignKey("agent_sessions.session_id"), primary_key=True),
        sa.Column("seq", sa.Integer(), autoincrement=False, primary_key=True),
        sa.Column("message_id", sa.String(length=36), sa.ForeignKey("messages.message_id"), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=3), nullable=False),
        sa.Column("injected_at", sa.String(length=24), nullable=True),
        sa.Column("held_at", sa.String(length=24), nullable=True),
        sa.Column("read_at", sa.String(length=24), nullable=True),
        sa.Column("acknowledged_at", sa.String(length=24), nullable=True),
        sa.Column("bounced_at", sa.String(length=24), nullable=True),
        sa.CheckConstraint("role IN ('to', 'cc', 'bcc')", name="role"),
        sa.UniqueConstraint("message_id", "session_id", name=op.f("uq_message_recipients_message_id_session_id")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_message_recipients_session_id_read_at", "message_recipients", ["session_id", "read_at", "injected_at"]
    )
    op.add_column("agent_sessions", sa.Column("transcript_path", sa.Text(), nullable=True))
    op.add_column("agent_sessions", sa.Column("agent", sa.String(length=128), nullable=True))
    op.create_index("ix_agent_sessions_folded", "agent_sessions", [sa.text("lower(agent_name)")])
    op.create_index(
        "ix_agent_sessions_agent_status", "agent_sessions", [sa.text("lower(agent)"), "status"], unique=False
    )
    op.add_column("tasks", sa.Column("agent", sa.String(length=128), nullable=True))
    op.add_column("tasks", sa.Column("description", sa.Text(), nullable=True))
    op.add_column("tasks", sa.Column("agent_requirements", sa.JSON(), nullable=True))
    op.add_column("tasks", sa.Column("deadline_at", sa.String(length=24), nullable=True))
    op.add_column("tasks", sa.Column("thread_id", sa.String(length=128), nullable=True))
    op.create_index("ix_tasks_thread_id_seq", "tasks", ["thread_id", "seq"])
    create_indexes(op.get_bind())
