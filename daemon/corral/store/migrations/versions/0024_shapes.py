"""a request remembers the shape in which it lands, and the commit that its target moved to

Revision ID: 0024
Revises: 0023
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("merge_requests", sa.Column("landed_tip_sha", sa.String(64), nullable=True))
    op.add_column("merge_requests", sa.Column("style", sa.String(16), nullable=True))
