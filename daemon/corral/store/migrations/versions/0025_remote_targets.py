"""what lands is pushed to a remote first; branches of landed tasks are published

Revision ID: 0025
Revises: 0024
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("landing_intents", sa.Column("remote", sa.Text, nullable=True))
    op.add_column("landing_intents", sa.Column("remote_sha", sa.String(64), nullable=True))
    op.add_column("landing_intents", sa.Column("pushed_at", sa.String(24), nullable=True))
    op.create_table(
        "landing_remotes",
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("remote", sa.Text, nullable=False),
        sa.Column("seen_at", sa.String(24), nullable=True),
        sa.Column("known_sha", sa.String(64), nullable=True),
        sa.Column("ahead", sa.Integer, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=True),
        sa.Column("since_at", sa.String(24), nullable=True),
        sa.Column("look_at", sa.String(24), nullable=True),
        sa.Column("behind_sha", sa.String(64), nullable=True),
        sa.Column("behind_reason", sa.Text, nullable=True),
    )
    op.create_table(
        "branch_pushes",
        sa.Column("merge_id", sa.String(36), primary_key=True),
        sa.Column("remote", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=True),
        sa.Column("look_at", sa.String(24), nullable=False),
    )
