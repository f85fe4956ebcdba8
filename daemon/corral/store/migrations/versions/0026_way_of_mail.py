"""the receipt of a message says which way it went into its recipient's context

Revision ID: 0026
Revises: 0025
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("message_recipients", sa.Column("way", sa.String(8), nullable=True))
