"""loops, and the checkpoint of each iteration

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

VERDICTS = "verdict IN ('converged', 'not_converged', 'inconclusive', 'failed')"


def upgrade() -> None:
    op.create_table(
        "loops",
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("base_sha", sa.String(length=64), nullable=True),
        sa.Column("counted_from", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("counted_from >= 0", name=op.f("ck_loops_counted_from")),
        sa.PrimaryKeyConstraint("task_id", name=op.f("pk_loops")),
    )
    op.create_table(
        "loop_iterations",
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("iteration", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("base_sha", sa.String(length=64), nullable=False),
        sa.Column("head_sha", sa.String(length=64), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("is_success", sa.Boolean(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("started_at", sa.String(length=24), nullable=False),
        sa.Column("ended_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint(VERDICTS, name=op.f("ck_loop_iterations_verdict")),
        sa.PrimaryKeyConstraint("task_id", "iteration", name=op.f("pk_loop_iterations")),
    )
