"""since when a session waits for its person, and for which file; the tasks that the machine holds back

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from corral.store.migrations.partial import create_partial_index

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agent_sessions", sa.Column("waiting_since_at", sa.String(length=24), nullable=True))
    op.add_column("agent_sessions", sa.Column("waiting_path", sa.Text(), nullable=True))
    create_partial_index("ix_tasks_held_back", "tasks", ["status", "runner", "seq"], "faults + crashes > 0")
