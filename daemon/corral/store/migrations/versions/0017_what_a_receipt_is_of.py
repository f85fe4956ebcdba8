"""what a receipt is of: the request and the commit that a verification ran for, its role, and what it took beside the commit

Revision ID: 0017
Revises: 0016
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("receipts", sa.Column("merge_id", sa.String(length=36), nullable=True))
    op.add_column("receipts", sa.Column("commit_sha", sa.String(length=64), nullable=True))
    op.add_column("receipts", sa.Column("role", sa.String(length=16), nullable=True))
    op.add_column("receipts", sa.Column("inputs", sa.JSON(), nullable=True))
    op.create_index("ix_receipts_merge_id", "receipts", ["merge_id"])
