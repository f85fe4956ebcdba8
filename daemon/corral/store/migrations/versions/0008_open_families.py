"""what the supervisor asks at each of its steps: open followers, and open tasks of several agents

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

from corral.store.migrations.partial import create_partial_index

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    is_follower = "parent_task_id IS NOT NULL AND completed_at IS NULL"
    create_partial_index("ix_tasks_open_followers", "tasks", ["parent_task_id"], is_follower)
    create_partial_index("ix_tasks_open_combined", "tasks", ["seq"], "combine IS NOT NULL AND completed_at IS NULL")
