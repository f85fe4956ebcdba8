"""tests that are red and then green on one tree are counted; a request has the receipt of its check

Revision ID: 0021
Revises: 0020
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("merge_requests", sa.Column("check_receipt_id", sa.String(36), nullable=True))
    op.add_column("receipts", sa.Column("failed_tests", sa.JSON, nullable=True))
    op.create_table(
        "flakes",
        sa.Column("flake_id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("test", sa.Text, nullable=True),
        sa.Column("merge_id", sa.String(36), nullable=False),
        sa.Column("commit_sha", sa.String(64), nullable=False),
        sa.Column("tree", sa.String(64), nullable=False),
        sa.Column("red_log", sa.Text, nullable=True),
        sa.Column("green_log", sa.Text, nullable=True),
        sa.Column("at", sa.String(24), nullable=False),
    )
    op.create_index("ix_flakes_target_test", "flakes", ["target", "test"])
