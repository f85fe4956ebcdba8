"""a person steers the queue: reverts, freezes, skipped and bypassed requests; and tips that came past the queue

Revision ID: 0023
Revises: 0022
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_STATUS = "status IN ('passed', 'failed', 'unverified', 'error', 'bypassed')"


def upgrade() -> None:
    for name, kind in (
        ("reverts", sa.String(36)),
        ("skipped_at", sa.String(24)),
        ("bypassed_sha", sa.String(64)),
        ("bypass_reason", sa.Text),
    ):
        op.add_column("merge_requests", sa.Column(name, kind, nullable=True))
    reverts = sa.text("reverts IS NOT NULL")
    op.create_index(
        "ix_merge_requests_reverts", "merge_requests", ["reverts"], sqlite_where=reverts, postgresql_where=reverts
    )
    op.create_table(
        "target_freezes",
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("since_at", sa.String(24), nullable=False),
    )
    op.create_table(
        "direct_tips",
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("base_sha", sa.String(64), nullable=False),
        sa.Column("tip_sha", sa.String(64), nullable=False),
        sa.Column("whose", sa.Text, nullable=False),
        sa.Column("seen_at", sa.String(24), nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("look_at", sa.String(24), nullable=True),
        sa.Column("reason", sa.Text, nullable=True),
    )
    with op.batch_alter_table("receipts") as receipts:
        receipts.drop_constraint(op.f("ck_receipts_status"), type_="check")
        receipts.create_check_constraint(op.f("ck_receipts_status"), _STATUS)
