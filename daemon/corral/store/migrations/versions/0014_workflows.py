"""tasks that are made of steps

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("steps_wanted", sa.Integer(), nullable=True))
    op.add_column("tasks", sa.Column("step", sa.String(length=128), nullable=True))
