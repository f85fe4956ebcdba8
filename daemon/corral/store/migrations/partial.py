"""Indexes of some rows only, for the revisions."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op


def create_partial_index(name: str, table: str, columns: Sequence[str], where: str, *, unique: bool = False) -> None:
    """Make an index of the rows for which a condition holds that means the same to every database."""
    rows = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=rows, postgresql_where=rows)
