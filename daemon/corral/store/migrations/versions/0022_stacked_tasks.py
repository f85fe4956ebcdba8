"""a task may begin on the finished branches of the tasks that it waits for, before these have landed

Revision ID: 0022
Revises: 0021
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("worktrees", sa.Column("stacked_on", sa.JSON, nullable=True))
    stacked = sa.text("stacked_on IS NOT NULL")
    op.create_index("ix_worktrees_stacked", "worktrees", ["branch"], sqlite_where=stacked, postgresql_where=stacked)
    op.add_column("task_dependencies", sa.Column("clashes_sha", sa.String(64), nullable=True))
