"""where the numbers begin: a new database is made from the tables, and has this schema or a later one

Revision ID: 0017
Revises:
"""

from __future__ import annotations

revision = "0017"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    raise AssertionError("Nothing is older than this schema; corral.store.migrate refuses what is.")
