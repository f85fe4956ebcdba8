"""which repository a database belongs to, which folder a worktree is, what a person approved, and faults that blame nobody

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "project_identity",
        sa.Column("id", sa.Integer(), autoincrement=False, primary_key=True),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("root", sa.Text(), nullable=False),
        sa.Column("common_dir", sa.Text(), nullable=False),
        sa.Column("folder_id", sa.String(length=48), nullable=False),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("id = 1", name="single"),
    )
    op.create_table(
        "target_pauses",
        sa.Column("target", sa.Text(), primary_key=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("since_at", sa.String(length=24), nullable=False),
        sa.Column("look_at", sa.String(length=24), nullable=False),
    )
    op.add_column("worktrees", sa.Column("folder_id", sa.String(length=48), nullable=True))
    op.add_column("merge_requests", sa.Column("approved_sha", sa.String(length=64), nullable=True))
    op.add_column("landing_intents", sa.Column("failed_at", sa.String(length=24), nullable=True))
    op.add_column("tasks", sa.Column("crashes", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("tasks", sa.Column("faults", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_merge_requests_receipt_id", "merge_requests", ["receipt_id"])
