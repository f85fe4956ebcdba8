"""a session's claim finds the tasks on offer to sessions without passing those that wait for a runner

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with_no_runner = sa.text("runner IS NULL")
    op.create_index(
        "ix_tasks_offered",
        "tasks",
        ["status", sa.text("priority DESC"), "seq"],
        sqlite_where=with_no_runner,
        postgresql_where=with_no_runner,
    )
