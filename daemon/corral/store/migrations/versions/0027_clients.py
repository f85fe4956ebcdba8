"""each request is told by the sessions of the processes behind it: they are found by the client's process

Revision ID: 0027
Revises: 0024
"""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_agent_sessions_client_pid", "agent_sessions", ["client_pid"])
