"""who did what: lines that each carry the hash of the one before, and both ends of that chain

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from corral.store.migrations.partial import create_partial_index

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

REFUSALS = {
    "audit_lines_changed": "BEFORE UPDATE ON audit_lines",
    "audit_lines_deleted": (
        "BEFORE DELETE ON audit_lines WHEN old.seq > coalesce((SELECT removed_seq FROM audit_chain), 0)"
    ),
}


def upgrade() -> None:
    op.create_table(
        "audit_lines",
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.String(length=24), nullable=False),
        sa.Column("agent_id", sa.String(length=128), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("action", sa.String(length=128), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("previous_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit_lines")),
    )
    create_partial_index("ix_audit_lines_task_id_seq", "audit_lines", ["task_id", "seq"], "task_id IS NOT NULL")
    op.create_index("ix_audit_lines_folded", "audit_lines", [sa.text("lower(agent_id)"), "seq"])
    op.create_index("ix_audit_lines_at", "audit_lines", ["at"])
    op.create_table(
        "audit_chain",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("removed_seq", sa.Integer(), nullable=False),
        sa.Column("removed_hash", sa.String(length=64), nullable=False),
        sa.Column("removed_at", sa.String(length=24), nullable=True),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("last_hash", sa.String(length=64), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_audit_chain_single")),
        sa.CheckConstraint("removed_seq <= last_seq", name=op.f("ck_audit_chain_ends")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_chain")),
    )
    if op.get_bind().dialect.name == "sqlite":  # a server has roles and rights for that
        for name, when in REFUSALS.items():
            op.execute(f"CREATE TRIGGER {name} {when} BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END")
