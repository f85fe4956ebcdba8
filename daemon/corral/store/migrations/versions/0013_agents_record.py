"""versions of agent definitions, attempts by agents, and what people think of their work

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent_versions",
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("changelog", sa.Text(), nullable=True),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.PrimaryKeyConstraint("agent", "content_hash", name=op.f("pk_agent_versions")),
        sa.UniqueConstraint("agent", "version", name=op.f("uq_agent_versions_agent_version")),
    )
    op.create_table(
        "agent_runs",
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=True),
        sa.Column("task_type", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=128), nullable=True),
        sa.Column("began_at", sa.String(length=24), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=True),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("task_id", "number", name=op.f("pk_agent_runs")),
    )
    op.create_index("ix_agent_runs_agent_began_at", "agent_runs", ["agent", "began_at"])
    op.create_table(
        "task_feedback",
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("rating", sa.Integer(), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("given_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("rating IS NULL OR rating BETWEEN 1 AND 5", name=op.f("ck_task_feedback_rating")),
        sa.CheckConstraint("rating IS NOT NULL OR comment IS NOT NULL", name=op.f("ck_task_feedback_said")),
        sa.PrimaryKeyConstraint("task_id", name=op.f("pk_task_feedback")),
    )
