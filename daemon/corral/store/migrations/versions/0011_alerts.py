"""alerts, what a notification has told, and notifications on their way to a webhook

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from corral.store.migrations.partial import create_partial_index

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alerts",
        sa.Column("alert_id", sa.String(length=36), nullable=False),
        sa.Column("rule", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("remedy", sa.Text(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("first_raised_at", sa.String(length=24), nullable=False),
        sa.Column("raised_at", sa.String(length=24), nullable=False),
        sa.Column("acknowledged_at", sa.String(length=24), nullable=True),
        sa.Column("resolved_at", sa.String(length=24), nullable=True),
        sa.Column("told", sa.String(length=16), nullable=True),
        sa.CheckConstraint("times > 0", name=op.f("ck_alerts_times")),
        sa.CheckConstraint("told IN ('raised', 'resolved')", name=op.f("ck_alerts_told")),
        sa.PrimaryKeyConstraint("alert_id", name=op.f("pk_alerts")),
    )
    create_partial_index("ix_alerts_open", "alerts", ["rule", "subject"], "resolved_at IS NULL", unique=True)
    op.create_index("ix_alerts_raised_at", "alerts", ["raised_at"])
    op.create_table(
        "told_needs",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("told_at", sa.String(length=24), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_told_needs")),
    )
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", sa.String(length=36), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("not_before_at", sa.String(length=24), nullable=False),
        sa.Column("settled_at", sa.String(length=24), nullable=True),
        sa.CheckConstraint("state IN ('waiting', 'delivered', 'failed', 'dropped')", name=op.f("ck_deliveries_state")),
        sa.CheckConstraint("(state = 'waiting') = (settled_at IS NULL)", name=op.f("ck_deliveries_settled")),
        sa.PrimaryKeyConstraint("delivery_id", name=op.f("pk_deliveries")),
    )
    create_partial_index("ix_deliveries_waiting", "deliveries", ["not_before_at"], "state = 'waiting'")
