"""the queue verifies chains of requests side by side: runs, suspects, and how long a target's chain may be

Revision ID: 0020
Revises: 0019
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("merge_requests", sa.Column("clashes_on_sha", sa.String(64), nullable=True))
    op.add_column("merge_requests", sa.Column("suspect_at", sa.String(24), nullable=True))
    op.create_table(
        "verification_runs",
        sa.Column("run_id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("merge_id", sa.String(36), nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("commit_sha", sa.String(64), nullable=False),
        sa.Column("candidate_sha", sa.String(64), nullable=False),
        sa.Column("tree", sa.String(64), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("is_alone", sa.Integer, nullable=False),
        sa.Column("members", sa.JSON, nullable=False),
        sa.Column("started_at", sa.String(24), nullable=False),
        sa.Column("ended_at", sa.String(24), nullable=True),
        sa.Column("receipt_id", sa.String(36), nullable=True),
    )
    runs = sa.text("ended_at IS NULL")
    op.create_index(
        "ix_verification_runs_running", "verification_runs", ["slot"], sqlite_where=runs, postgresql_where=runs
    )
    op.create_index("ix_verification_runs_merge_id", "verification_runs", ["merge_id"])
    op.create_table(
        "landing_targets",
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("batch", sa.Integer, nullable=False),
    )
