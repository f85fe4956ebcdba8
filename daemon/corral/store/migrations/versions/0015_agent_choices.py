"""versions that tasks and agents are pinned to, rollouts of versions, and improvements

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from corral.store.migrations.partial import create_partial_index

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("agent_version", sa.String(length=64), nullable=True))
    op.add_column("agent_runs", sa.Column("choice_id", sa.String(length=36), nullable=True))
    op.create_table(
        "agent_choices",
        sa.Column("choice_id", sa.String(length=36), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("from_hash", sa.String(length=64), nullable=True),
        sa.Column("share", sa.Float(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("ended_at", sa.String(length=24), nullable=True),
        sa.Column("seen_at", sa.String(length=24), nullable=True),
        sa.CheckConstraint("state IN ('running', 'stopped', 'rolled_back')", name=op.f("ck_agent_choices_state")),
        sa.CheckConstraint("(state = 'running') = (ended_at IS NULL)", name=op.f("ck_agent_choices_ended")),
        sa.CheckConstraint("(from_hash IS NULL) = (share IS NULL)", name=op.f("ck_agent_choices_kind")),
        sa.PrimaryKeyConstraint("choice_id", name=op.f("pk_agent_choices")),
    )
    create_partial_index("uq_agent_choices_running", "agent_choices", ["agent"], "ended_at IS NULL", unique=True)
    op.create_index("ix_agent_choices_agent_created_at", "agent_choices", ["agent", "created_at"])
    op.create_table(
        "agent_improvements",
        sa.Column("improvement_id", sa.String(length=36), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("base_hash", sa.String(length=64), nullable=False),
        sa.Column("new_hash", sa.String(length=64), nullable=True),
        sa.Column("material", sa.Text(), nullable=False),
        sa.Column("deploys", sa.Boolean(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=True),
        sa.Column("report", sa.JSON(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column("ended_at", sa.String(length=24), nullable=True),
        sa.CheckConstraint(
            "state IN ('proposing', 'testing', 'done', 'failed')", name=op.f("ck_agent_improvements_state")
        ),
        sa.PrimaryKeyConstraint("improvement_id", name=op.f("pk_agent_improvements")),
    )
    op.create_index("ix_agent_improvements_agent_created_at", "agent_improvements", ["agent", "created_at"])
